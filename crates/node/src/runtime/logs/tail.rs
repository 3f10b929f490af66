//! Finding where the last lines of a log begin, by reading it backwards.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::parts::Part;
use super::record::MARK;

const BLOCK: u64 = 64 * 1024;

/// Where to begin to read so many lines: which part, and where in it.
pub(super) fn begin(parts: &[Part], lines: u64) -> io::Result<(usize, u64)> {
    let Some(last) = parts.len().checked_sub(1) else { return Ok((0, 0)) };
    if lines == 0 {
        return Ok((last, parts.last().map_or(Ok(0), |part| part.file.metadata().map(|file| file.len()))?));
    }
    let mut search = Search { wanted: lines, found: 0, newest: true };
    for (n, part) in parts.iter().enumerate().rev() {
        if let Some(at) = search.backwards(&part.file)? {
            return Ok((n, at));
        }
    }
    Ok((0, 0))
}

struct Search {
    wanted: u64,
    found: u64,
    /// Nothing has been seen yet.
    newest: bool,
}

impl Search {
    /// Goes from the end to the beginning; where the wanted lines begin if that is in this file.
    fn backwards(&mut self, file: &File) -> io::Result<Option<u64>> {
        let length = file.metadata()?.len();
        let mut after = length;
        let mut end = length;
        while end > 0 {
            let start = end.saturating_sub(BLOCK);
            // A record that begins at the end of this block has its mark in the next one.
            let block = read_at(file, start, end - start + MARK as u64 + 1)?;
            let own = usize::try_from(end - start).unwrap_or_default().min(block.len());
            let ends = block.get(..own).unwrap_or_default().iter().enumerate().rev();
            let mut begins: Vec<usize> =
                ends.filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
            if start == 0 {
                begins.push(0);
            }
            for at in begins {
                let place = start + at as u64;
                if place < length && self.passes(block.get(at + MARK), &mut after, place) {
                    return Ok(Some(after));
                }
            }
            end = start;
        }
        Ok(None)
    }

    /// Counts a record; whether it is one too many. What lies before a line's end and behind the end of the line before
    /// belongs to it.
    fn passes(&mut self, mark: Option<&u8>, after: &mut u64, place: u64) -> bool {
        let whole = mark == Some(&b'F');
        if whole && self.found == self.wanted {
            return true;
        }
        // The last line may not have ended yet.
        if whole || (self.newest && mark == Some(&b'P')) {
            self.found += 1;
        }
        self.newest = false;
        *after = place;
        false
    }
}

fn read_at(file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut block = vec![0; usize::try_from(length).unwrap_or_default()];
    let mut filled = 0;
    while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, start + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    block.truncate(filled);
    Ok(block)
}

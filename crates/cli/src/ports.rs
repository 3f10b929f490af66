//! A range of ports, as flags name it.

use anyhow::bail;

/// Where nobody says more: below the ports that Linux gives to clients and that Kubernetes gives to services.
pub(crate) const USUAL: &str = "20000-29999";

/// The first and the last.
pub(crate) fn range(flag: &str, text: &str) -> anyhow::Result<(u16, u16)> {
    let parsed = text.split_once('-').and_then(|(first, last)| {
        Some((first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?))
    });
    match parsed {
        Some((first, last)) if first > 0 && first <= last => Ok((first, last)),
        _ => bail!("{flag}: {text:?} is no range of ports: write FIRST-LAST, for example {USUAL}"),
    }
}

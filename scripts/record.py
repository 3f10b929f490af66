#!/usr/bin/env python3
"""Records `trainyard run` on a terminal of its own and draws it as an animated SVG.

    scripts/record.py PROGRAM docs/images/run.svg

PROGRAM is the binary. It runs the quickstart in a pseudo-terminal, with a home of its own. Its bytes go, with their
times, through a terminal emulator; what the screen shows, at most ten times a second, becomes the picture. Viewers that
do not animate show one frame: the last in which both the command and the rows of the replicas are to be seen.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
import venv
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

PYTE = "0.8.2"
COLUMNS, ROWS = 100, 24
COMMAND = ["run", "examples/quickstart/pytorchjob.yaml"]
ROOT = Path(__file__).resolve().parent.parent

FRAME = 0.1  # seconds; faster changes are left out
TYPING = 0.05  # seconds per character of the command
LAST = 6.0  # seconds that the end stays

WIDTH, HEIGHT = 8.4, 18  # of a character, for text of 14 pixels
MARGIN, TITLE = 16, 34
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
GROUND, TEXT = "#15181e", "#d5dae3"
COLOURS = {
    "black": "#5c6370", "red": "#e5736f", "green": "#8ec07c", "brown": "#dfb668", "yellow": "#dfb668",
    "blue": "#73a8e0", "magenta": "#c792d8", "cyan": "#6fc1c9", "white": TEXT, "brightblack": "#7d8594",
}  # fmt: skip


def main():
    program, picture = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    pyte = emulator()
    frames = replay(pyte, record(program))
    text = svg(frames)
    for private in (str(Path.home()), str(ROOT), tempfile.gettempdir()):
        if len(private) > 1 and private in text:
            sys.exit(f"{private} is in the picture")
    picture.write_text(text)
    print(f"{picture.relative_to(ROOT)}: {len(frames)} frames, {frames[-1][0]:.1f} s, {len(text) // 1024} KiB")


def emulator():
    """The terminal emulator, from an environment that is made once, outside the repository."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "trainyard" / f"pyte-{PYTE}"
    if not (home / "done").exists():
        venv.create(home, with_pip=True, clear=True)
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"pyte=={PYTE}"], check=True)
        (home / "done").touch()
    sys.path[:0] = map(str, home.glob("lib/python*/site-packages"))
    import pyte

    return pyte


def record(program):
    """What the program writes, with times."""
    with tempfile.TemporaryDirectory() as home:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(ROOT)
            keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            os.execve(program, ["trainyard", *COMMAND], {**keep, "HOME": home, "TERM": "xterm-256color"})
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        begun, output = time.monotonic(), []
        while True:
            try:
                part = os.read(terminal, 1 << 16)
            except OSError:  # how Linux says that nobody has the other end open any more
                break
            if not part:
                break
            output.append((time.monotonic() - begun, part))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 0:
        sys.exit(f"{program} ended with {code}:\n" + b"".join(part for _, part in output).decode(errors="replace"))
    return output


def replay(pyte, output):
    """Pairs of time and screen. A screen is a list of lines, a line a list of runs: text, colour, whether bold."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    frames = []

    def shoot(at):
        lines = []
        for row in range(ROWS):
            cells = [screen.buffer[row][column] for column in range(COLUMNS)]
            runs = [
                ("".join(cell.data for cell in group), *look)
                for look, group in groupby(cells, key=lambda cell: (cell.fg, cell.bold))
            ]
            lines.append(trim(runs))
        if not frames or frames[-1][1] != lines:
            frames.append((at, lines))

    command, at = "trainyard " + " ".join(COMMAND), 0.6
    stream.feed(b"\x1b[32m$\x1b[0m ")
    shoot(0)
    for start in range(0, len(command), 2):
        stream.feed(command[start : start + 2].encode())
        shoot(at)
        at += 2 * TYPING
    at += 0.3
    stream.feed(b"\r\n")
    due = 0
    for when, part in output:
        if when >= due + FRAME:
            shoot(at + due)
            due = when
        stream.feed(part)
    shoot(at + due + FRAME)
    frames.append((at + due + FRAME + LAST, frames[-1][1]))
    return frames


def trim(runs):
    while runs and not runs[-1][0].strip():
        runs.pop()
    return [*runs[:-1], (runs[-1][0].rstrip(), *runs[-1][1:])] if runs else []


def svg(frames):
    """Each different line is drawn once and used by the frames that show it."""
    length = frames[-1][0]
    names, lines, body = {}, [], []
    typical = [n for n, (_, screen) in enumerate(frames) if words(screen[0])[:1] == "$" and has_rows(screen)]
    still, rules = max(typical, default=len(frames) - 2), []
    for number, ((start, screen), (end, _)) in enumerate(zip(frames, frames[1:])):
        uses = []
        for row, runs in enumerate(screen):
            if not runs:
                continue
            key = tuple(runs)
            if key not in names:
                names[key] = f"l{len(names)}"
                lines.append(f'<text id="{names[key]}">{spans(runs)}</text>')
            uses.append(f'<use href="#{names[key]}" y="{row * HEIGHT}"/>')
        first, after = 100 * start / length, 100 * end / length
        if number == len(frames) - 2:
            rules.append(f"@keyframes f{number}{{0%{{visibility:hidden}}{first:.3f}%,to{{visibility:visible}}}}")
        else:
            rules.append(f"@keyframes f{number}{{0%{{visibility:{'visible' if number == 0 else 'hidden'}}}"
                         f"{first:.3f}%{{visibility:visible}}{after:.3f}%,to{{visibility:hidden}}}}")
        rules.append(f"#f{number}{{animation-name:f{number}}}")
        hidden = "" if number == still else ' class="o"'
        body.append(f'<g id="f{number}"{hidden}>{"".join(uses)}</g>')
    width, height = COLUMNS * WIDTH + 2 * MARGIN, ROWS * HEIGHT + TITLE + MARGIN
    style = (
        f"text{{font:14px {FONT};fill:{TEXT};white-space:pre}}.o{{visibility:hidden}}"
        f"g[id]{{animation:{length:.2f}s step-end infinite}}.b{{font-weight:bold}}"
        + "".join(f".{name}{{fill:{colour}}}" for name, colour in COLOURS.items())
        + "".join(rules)
        + "@media (prefers-reduced-motion:reduce){g[id]{animation:none}}"
    )
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * n}" cy="17" r="5.5" fill="#3a404c"/>' for n in range(3))
    label = "trainyard run: one master and two workers train on one machine"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        f' role="img" aria-label="{label}">\n<title>{label}</title>\n<style>{style}</style>\n'
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>{dots}\n<defs>\n' + "\n".join(lines) + "\n</defs>\n"
        f'<g transform="translate({MARGIN} {TITLE + 14})">\n' + "\n".join(body) + "\n</g>\n</svg>\n"
    )


def has_rows(screen):
    return any(words(line).startswith("REPLICA") for line in screen)


def words(line):
    return "".join(text for text, *_ in line)


def spans(runs):
    """Every run says where it begins and how long it is, so that any font keeps the columns."""
    parts, column = [], 0
    for text, colour, bold in runs:
        lead = len(text) - len(text.lstrip())
        shown = text.strip()
        if shown:
            style = " ".join([colour] * (colour in COLOURS) + ["b"] * bold)
            style = f' class="{style}"' if style else ""
            where = f'x="{(column + lead) * WIDTH:g}" textLength="{len(shown) * WIDTH:g}"'
            parts.append(f"<tspan {where}{style}>{escape(shown)}</tspan>")
        column += len(text)
    return "".join(parts)


if __name__ == "__main__":
    main()

"""Runs a shell command on a terminal of its own: what comes on standard input is typed, what the terminal shows is printed.
The terminal is closed, as a window is, when standard input ends."""
import os
import pty
import select
import sys

pid, master = pty.fork()
if pid == 0:
    os.execv("/bin/sh", ["/bin/sh", "-c", sys.argv[1]])
typing = True
while True:
    ready, _, _ = select.select([master, 0], [], [])
    if master in ready:
        try:
            shown = os.read(master, 65536)
        except OSError:
            break
        if not shown:
            break
        os.write(1, shown)
    if 0 in ready:
        typed = os.read(0, 65536)
        if not typed:
            os.close(master)
            break
        os.write(master, typed)
os.waitpid(pid, 0)

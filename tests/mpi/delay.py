#!/usr/bin/env python3
"""A link that delays each packet, where the kernel has no netem: delay.py MICROSECONDS PID:ADDRESS PID:ADDRESS

Makes a device xtdelay in the network namespace of each process, with the address, and carries packets between them until
SIGTERM. Prints a line once it does, and at its end how long packets were on their way, in microseconds (the median)."""
import collections, ctypes, fcntl, os, select, signal, statistics, struct, subprocess, sys, time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET, MTU = 0x400454CA, 1, 0x1000, 0x40000000, 60000
libc = ctypes.CDLL(None, use_errno=True)


def device(pid, address):
    with open(f"/proc/{pid}/ns/net") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"xtdelay", IFF_TUN | IFF_NO_PI))
    for line in (f"addr add {address}/24 dev xtdelay", f"link set xtdelay mtu {MTU} txqueuelen 10000 up"):
        subprocess.run(["ip", *line.split()], check=True)
    return fd


delay = float(sys.argv[1]) / 1e6
fds = [device(*end.split(":")) for end in sys.argv[2:4]]
waiting = [collections.deque(), collections.deque()]
taken = []


def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("took", round(1e6 * statistics.median(taken)) if taken else "nothing")
    sys.exit()


signal.signal(signal.SIGTERM, end)
print("carries", flush=True)
while True:
    next_due = min((queue[0][0] for queue in waiting if queue), default=None)
    wait = next_due and max(0, next_due - time.monotonic() - 60e-6)
    # A sleep ends some 60 us late: the rest is polled.
    for fd in select.select(fds, [], [], wait)[0]:
        side = fds.index(fd)
        while True:
            try:
                waiting[1 - side].append((time.monotonic() + delay, os.read(fd, MTU + 100)))
            except BlockingIOError:
                break
    now = time.monotonic()
    for side, queue in enumerate(waiting):
        while queue and queue[0][0] <= now:
            due, packet = queue.popleft()
            os.write(fds[side], packet)
            taken.append(time.monotonic() - due + delay)

#!/usr/bin/env python3
"""What many cores would do, counted on a machine of few: trains some steps with each number of threads and prints how the
work of a step is divided among them, in CPU time (scripts/many-cores.c). Amdahl's law with measured parts: a step takes at
least what only one thread does, and in each parallel region what its busiest thread does. Memory's speed, the cost of
a barrier and the caches of other cores are no part of it.

usage: scripts/many-cores.py [--xtrain build/xtrain] [--threads 1,16,64] [--steps 3] [--codes 8] -- OPTIONS OF A TRAINING
The number of threads begins with 1: what one thread takes is what the others are compared with.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = "GOMP_1.0 { global: GOMP_*; local: *; };\nOMP_1.0 { global: omp_*; };\n"


def build(folder):
    versions = os.path.join(folder, "versions")
    with open(versions, "w") as file:
        file.write(VERSIONS)
    library = os.path.join(folder, "libgomp.so.1")
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", os.path.join(HERE, "many-cores.c"), "-o", library,
                    "-Wl,-soname,libgomp.so.1", "-Wl,--version-script=" + versions, "-ldl"], check=True)
    return library


def names_of(path):
    """The functions of the program; oneDNN's regions are one."""
    if "dnnl" in os.path.basename(path):
        return {}
    lines = subprocess.run(["nm", path], capture_output=True, text=True).stdout.splitlines()
    return {int(line.split()[0], 16): line.split()[2].split("._omp")[0] for line in lines if " t " in line.lower()}


def run(arguments, library, folder, threads, steps, skip):
    """All regions; after those to skip the serial seconds, and {code: (regions, work, longest, pieces)}."""
    sums = os.path.join(folder, "sums")
    environment = dict(os.environ, LD_PRELOAD=library, COUNT_GOMP=arguments.gomp, COUNT_FILE=sums,
                       COUNT_SKIP=str(skip), OMP_WAIT_POLICY="passive")
    command = [arguments.xtrain, *arguments.training, "--threads", str(threads), "--oversubscribe", "--steps", str(steps),
               "--out", os.path.join(folder, f"run{threads}-{steps}"), "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"many-cores: {' '.join(command)} gave code {done.returncode}:\n{done.stderr}")
    codes = {}
    with open(sums) as file:
        _, seen, main, inside = file.readline().split()
        for line in file:
            path, at, regions, work, longest, pieces = line.split()
            codes[path, int(at, 16)] = (int(regions), float(work), float(longest), int(pieces))
    return int(seen), float(main) - float(inside), codes


def measure(arguments, library, folder, threads):
    """Of one step: what more steps take more than two, of which the first, which touches the memory, is skipped."""
    skip, _, _ = run(arguments, library, folder, threads, 1, 0)
    _, serial, few = run(arguments, library, folder, threads, 2, skip)
    _, more_serial, more = run(arguments, library, folder, threads, 2 + arguments.steps, skip)
    names, codes = {}, {}
    for key, (regions, work, longest, pieces) in more.items():
        path, at = key
        if path not in names:
            names[path] = names_of(path)
        before = few.get(key, (0, 0, 0, 0))
        if regions == before[0]:
            continue
        name = names[path].get(at, "oneDNN")
        old = codes.get(name, (0, 0, 0, 0))
        part = [(now - then) / arguments.steps for now, then in zip((regions, work, longest), before)]
        codes[name] = (*(a + b for a, b in zip(old, part)), max(old[3], pieces))
    return (more_serial - serial) / arguments.steps, codes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xtrain", default=os.path.join(HERE, "../build/xtrain"))
    parser.add_argument("--threads", default="1,16,64")
    parser.add_argument("--steps", type=int, default=3, help="steps that are counted")
    parser.add_argument("--codes", type=int, default=8, help="lines of each table")
    parser.add_argument("--gomp", default=(glob.glob("/usr/lib/*/libgomp.so.1") + ["libgomp.so.1"])[0], help="libgomp's file")
    parser.add_argument("training", nargs="+", help="options of the training")
    arguments = parser.parse_args()
    arguments.gomp = os.path.realpath(arguments.gomp)
    one = first = None
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
        for threads in (int(number) for number in arguments.threads.split(",")):
            serial, codes = measure(arguments, library, folder, threads)
            work = sum(code[1] for code in codes.values())
            one = one or serial + work
            library_work = codes.get("oneDNN", (0, 0, 0, 0))[1]
            own_work = work - library_work
            first = first if first is not None else own_work
            # Its barriers spin, so what its threads take is work only where it is not much more than one thread's.
            rest = max(one - first, one - own_work)
            evenly = library_work > 1.5 * rest
            if evenly:
                codes["oneDNN"] = (codes["oneDNN"][0], rest, rest / threads, 0)
            longest = sum(code[2] for code in codes.values())
            regions = sum(code[0] for code in codes.values())
            print(f"{threads} threads: {regions:.0f} regions a step, own work {1e3 * own_work:.0f} ms, "
                  f"busiest threads {1e3 * longest:.1f} ms, serial {1e3 * serial:.1f} ms: at most "
                  f"{one / (serial + longest):.1f} times the first line's step"
                  + (" (oneDNN's taken as divided evenly: its barriers spin)" if evenly else ""))
            for name, (regions, work, longest, pieces) in sorted(codes.items(), key=lambda item: -item[1][2])[:arguments.codes]:
                print(f"  {name:32} {regions:6.1f} regions, {pieces or '?':>3} threads with work, {1e3 * work:8.2f} ms, "
                      f"busiest {1e3 * longest:8.2f} ms")
            sys.stdout.flush()


main()

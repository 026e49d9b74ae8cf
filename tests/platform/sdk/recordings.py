"""Reads git repositories that have recordings of providers: cassettes/*.yaml of VCR, and
__fixtures__. The programs recorded*.py share it."""

import json
import subprocess

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def files(repository, wanted):
    """The path and the bytes of each file of the newest commit that is wanted and stored.
    The repository is a git directory, bare or not."""
    git = ["git", "-C", repository]
    names = subprocess.check_output(git + ["ls-tree", "-r", "-z", "--name-only", "HEAD"])
    with subprocess.Popen(git + ["cat-file", "--batch"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as blobs:
        for name in filter(wanted, names.decode().split("\0")):
            blobs.stdin.write(f"HEAD:{name}\n".encode())
            blobs.stdin.flush()
            head = blobs.stdout.readline().split()
            if len(head) == 3:
                data = blobs.stdout.read(int(head[2]))
                blobs.stdout.read(1)
                yield name, data
        blobs.stdin.close()


def recorded(*endings):
    """Tells cassettes, and fixtures with one of these endings."""
    return lambda name: ("/cassettes/" in name and name.endswith(".yaml")) or \
        ("/__fixtures__/" in name and name.endswith(endings))


def json_of(text):
    """The value of a text; None: it is no JSON."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None

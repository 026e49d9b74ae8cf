#!/usr/bin/env python3
"""The proof of shipping: rounds of random faults, after which each log and the server
have the same, or the shipper has stopped and named why.

  rounds.py FOLDER TOOL WRITER [--rounds N] [--seed N] [--only FIRST-LAST] [--seconds N]
            [--keep] [--stop]

A round has three servers (a primary, a synchronous and an asynchronous replica), two
hosts with a log each, writers that append and change at random (writer.c), and a shipper
for each host, which goes through a proxy. Faults are dealt from a shuffled deck, four to
a round; both follow from the seed. --only 7 runs one of the rounds, --only 7-9 three.
With --seconds no round begins later than that. --keep leaves the folders,
--stop ends after a round that fails.

Then all shippers run until they are done. A log whose shipper ended with 0 is compared
with the rows of its source: each message has one row under its number, in the order of
its location, with the content, flags, notes and facts that the log shows; what the log
does not show is hidden there; and of a redacted message no word is in any row. Where a
shipper named a conflict, what it named may differ; a conflict must have a reason (a copy
of a log, a key of two hosts). All else is a silent difference: it fails, and prints seed,
faults and the first message that differs.

Not compared, since a log that was compacted does not have it any more: messages that were
hidden before the compaction, and had not been shipped since (docs/fleet.md); and the
facts of a location that had none any more then (backends/README.md).
"""
import argparse
import collections
import json
import os
import random
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

SERVER = 'tests/platform/postgres/server.sh'
FAULTS = ['kill shipper', 'kill server', 'failover, asynchronous',
          'failover, synchronous', 'restored backup', 'compaction', 'redaction',
          'copy of a log', 'log restored', 'cut network', 'silent network',
          'two shippers', 'keys of two hosts']
PER_ROUND = 4
QUICK = ['fsync=off', 'full_page_writes=off', 'synchronous_commit=on', 'autovacuum=off',
         'wal_retrieve_retry_interval=100ms', 'max_wal_size=256MB']
CONFLICT = 5


class Difference(Exception):
    pass


def run(*args, check=True, timeout=90):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError('%s: %d: %s' % (' '.join(args)[:300], done.returncode,
                                           done.stderr.decode(errors='replace')[-600:]))
    return done


def url_of(hosts):
    return 'postgresql:///postgres?user=test&host=' + hosts


class Proxy:
    """Forwards connections to the servers: sockets in folders beside theirs. A server
    that is down has none, so a client goes on to the next host."""

    def __init__(self, folder):
        self.folder, self.links, self.left, self.silent = folder, {}, None, False
        self.lock, self.ended, self.listening = threading.Lock(), False, {}
        self.select = selectors.DefaultSelector()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def path(self, name):
        return os.path.join(self.folder, 'net_' + name)

    def change(self, name, up):
        """Begins or ends to listen for a server."""
        with self.lock:
            if up and name not in self.listening:
                os.makedirs(self.path(name), exist_ok=True)
                s = socket.socket(socket.AF_UNIX)
                s.bind(self.path(name) + '/.s.PGSQL.5432')
                s.listen(64)
                s.setblocking(False)
                self.listening[name] = s
                self.select.register(s, selectors.EVENT_READ, name)
            elif not up and name in self.listening:
                s = self.listening.pop(name)
                self.select.unregister(s)
                s.close()
                os.unlink(self.path(name) + '/.s.PGSQL.5432')

    def drop(self, s):
        """Closes both sides."""
        for each in (s, self.links.pop(s, None)):
            if each is None:
                continue
            self.links.pop(each, None)
            try:
                self.select.unregister(each)
            except (KeyError, ValueError):
                pass
            each.close()

    def work(self):
        while not self.ended:
            for key, _ in self.select.select(0.05):
                with self.lock:
                    if key.data in self.listening:
                        self.accept(key.fileobj, key.data)
                    elif key.fileobj in self.links and not self.silent:
                        self.forward(key.fileobj)
            if self.silent:
                time.sleep(0.02)

    def accept(self, listening, target):
        try:
            client, _ = listening.accept()
        except OSError: # it went away before that
            return
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(os.path.join(self.folder, target, '.s.PGSQL.5432'))
        except OSError:
            client.close()
            server.close()
            return
        self.links[client], self.links[server] = server, client
        for each in (client, server):
            self.select.register(each, selectors.EVENT_READ, None)

    def forward(self, s):
        other = self.links[s]
        try:
            data = s.recv(65536)
            if data and self.left is not None and self.left < len(data):
                other.sendall(data[:self.left])
                self.left = None
                self.drop(s)
                return
            if self.left is not None:
                self.left -= len(data)
            if data:
                other.sendall(data)
        except OSError:
            data = b''
        if not data:
            self.drop(s)

    def cut_after(self, n):
        """The connection that carries the n-th byte from now on ends there."""
        with self.lock:
            self.left = n

    def hush(self, on):
        """Connections carry nothing; when that is over, they end."""
        with self.lock:
            self.silent = on
            for s in list(self.links) if not on else []:
                if s in self.links:
                    self.drop(s)

    def close(self):
        self.ended = True
        self.thread.join()
        for key in list(self.select.get_map().values()):
            key.fileobj.close()


class Servers:
    """primary, its replicas `sync` and `async`, and `backup`, which is made later."""
    NAMES = ['primary', 'sync', 'async', 'backup']

    def __init__(self, folder, template, proxy):
        self.folder, self.at, self.running, self.ready = folder, 'primary', set(), False
        self.proxy = proxy
        own = QUICK + ['synchronous_standby_names=sync']
        self.call('adopt', 'primary', template, *own)
        for name in ('sync', 'async'):
            info = 'primary_conninfo=host=%s user=test application_name=%s' % (
                self.path('primary').replace("'", ''), name)
            self.call('adopt', name, template, *QUICK, info, 'standby')
        for name in ('primary', 'sync', 'async'):
            self.start(name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, what, name, *rest):
        return run('bash', SERVER, what, self.path(name), *rest)

    def sql(self, text, name=None):
        done = run('psql', '-qAtX', '-F', '\t', '-h', self.path(name or self.at), '-U',
                   'test', '-d', 'postgres', '-v', 'ON_ERROR_STOP=1', '-c', text)
        return [line.split('\t') for line in done.stdout.decode().splitlines()]

    def start(self, name):
        self.call('start', name)
        self.running.add(name)
        self.proxy.change(name, True)

    def kill(self, name):
        if name in self.running:
            self.call('kill', name)
            self.running.discard(name)
            self.proxy.change(name, False)

    def hold_back(self):
        """From now on the asynchronous replica receives nothing."""
        self.sql("alter system set primary_conninfo = ''", 'async')
        self.sql('select pg_reload_conf()', 'async')

    def promote(self, name):
        for other in self.running - {name}:
            self.kill(other)
        self.call('promote', name)
        self.at = name

    def back_up(self):
        self.call('copy', 'backup', self.path(self.at), *QUICK,
                  'synchronous_standby_names=')
        self.call('kill', 'backup')
        os.remove(self.path('backup') + '/data/standby.signal')
        self.ready = True

    def restore(self):
        for name in list(self.running):
            self.kill(name)
        self.start('backup')
        self.at = 'backup'

    def close(self):
        for name in list(self.running):
            self.kill(name)


class Host:
    def __init__(self, proof, name, folder, original=None):
        self.proof, self.name, self.folder = proof, name, folder
        self.log = folder + '/agent.log'
        self.follower, self.output, self.tries = None, '', 0
        self.words = collections.defaultdict(list)   # of each message
        self.redacted = set()
        self.gone = set()         # hidden before a compaction
        self.compacted = False
        self.may_conflict = False
        self.writer = None
        os.makedirs(folder)
        if original is not None:
            shutil.copyfile(original.log, self.log)
            for seq, words in original.words.items():
                self.words[seq] = list(words)
            self.redacted, self.gone = set(original.redacted), set(original.gone)
            self.compacted = original.compacted

    # ---- the agent

    def write(self, steps, pause=0):
        self.wait()
        seed = self.proof.rng.getrandbits(40)
        args = [self.proof.writer, self.log, self.name[0], str(seed), str(steps),
                str(pause)] + (['keys'] if self.proof.keys else [])
        self.writer = subprocess.Popen(args, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)

    def wait(self):
        if self.writer is None:
            return
        out, err = self.writer.communicate(timeout=60)
        if self.writer.returncode != 0:
            raise RuntimeError('writer %s: %s' % (self.name, err.decode()))
        self.writer = None
        for line in out.decode().splitlines():
            what, seq, *word = line.split()
            seq = int(seq)
            if what == 'text':
                self.words[seq] += word
            elif what == 'redact':
                self.redacted.add(seq)

    def compact(self):
        self.wait()
        shown = {m['seq'] for m in self.view()}
        self.gone |= {m['seq'] for m in self.view('--raw') if m['kind'] == 'message'
                      and m['seq'] not in shown}
        run(self.proof.tool, 'compact', self.log, self.log, '--replace')
        self.compacted = True

    def redact(self):
        self.wait()
        shown = [m['seq'] for m in self.view() if not m.get('redacted')]
        some = self.proof.rng.sample(shown, min(5, len(shown)))
        if some:
            run(self.proof.tool, 'redact', '--apply', self.log, *map(str, some))
            self.redacted |= set(some)

    # ---- the shipper

    def ship_args(self, *more):
        return [self.proof.tool, 'ship', self.folder, '--to', self.proof.url, *more]

    def follow(self):
        self.follower = subprocess.Popen(
            self.ship_args('--follow'), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def tend(self):
        """As a supervisor does: starts a shipper that has ended."""
        if self.follower is not None and self.follower.poll() is not None:
            self.take_output()
            self.follow()

    def take_output(self):
        self.output += self.follower.stderr.read().decode(errors='replace')
        self.follower.stderr.close()
        code = self.follower.wait()
        self.follower = None
        return code

    def end_follower(self, hard):
        if self.follower is None:
            return
        self.follower.kill() if hard else self.follower.terminate()
        self.take_output()

    def ship(self):
        """Ships once; returns the exit code and the report."""
        done = run(*self.ship_args(), check=False)
        text, err = done.stdout.decode(), done.stderr.decode(errors='replace')
        self.output += err
        if done.returncode == 0 and re.search('[1-9][0-9]* do not fit', text):
            raise Difference('%s: records are left out, and the exit code is 0: %s' %
                             (self.name, text))
        if done.returncode != 0 and err.strip() == '':
            raise Difference('%s: exit code %d, and no line why' %
                             (self.name, done.returncode))
        return done.returncode, text, err

    # ---- what the log has

    def view(self, *more):
        out = run(self.proof.tool, 'view', self.log, '--json', *more).stdout.decode()
        return [json.loads(line) for line in out.splitlines() if line]

    def lineage(self):
        """Bytes 56 to 71; zeros: those of the file itself, 24 to 39."""
        with open(self.log, 'rb') as f:
            head = f.read(80)
        return (head[56:72] if any(head[56:72]) else head[24:40]).hex()


def plain(message):
    """A shown message without its number; a compacted log has no amendments."""
    return {k: v for k, v in message.items() if k not in ('seq', 'kind')}


class Rows:
    """What the server has: rows by SQL, their content by the tool."""

    def __init__(self, proof):
        self.proof = proof
        self.rows = proof.servers.sql(
            "select encode(key, 'hex'), location, kind, seq, place, until is null,"
            " coalesce(encode(source, 'hex'), '') from msgstore_record"
            " where kind in (1, 3) order by place")
        self.shown = {m['seq']: m for m in self.view()}
        self.notes = collections.defaultdict(list)
        for m in self.view('--raw'):
            if m['kind'] == 'note':
                self.notes[m['seq']].append(json.dumps(plain(m), sort_keys=True))

    def view(self, *more):
        out = run(self.proof.tool, 'view', self.proof.direct(), '--json',
                  *more).stdout.decode()
        return [json.loads(line) for line in out.splitlines() if line]

    def of_source(self, lineage, keys):
        """Numbers in the source, with those here. keys: numbers by (location, key)."""
        found = {}
        for key, location, kind, seq, _, _, source in self.rows:
            if kind != '1' or source != lineage:
                continue
            raw = bytes.fromhex(key)
            made = raw[:1] in (b's', b'x') # x: a forgotten message that had a key
            if made and raw[1:17].hex() == lineage and len(raw) == 25:
                number = int.from_bytes(raw[17:], self.proof.order)
            else:
                number = keys.get((location, raw[1:].decode()), (location, raw))
            if number in found:
                raise Difference('message %s has two rows' % (number,))
            found[number] = int(seq)
        return found


class Proof:
    def __init__(self, args, number, faults):
        self.tool, self.writer = os.path.abspath(args.tool), os.path.abspath(args.writer)
        self.rng = random.Random('%d/%d' % (args.seed, number))
        self.folder = os.path.join(args.folder, 'round%d' % number)
        self.faults, self.keys, self.order = faults, 'keys of two hosts' in faults, 'big'
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o755)
        self.template = args.template
        self.hosts, self.servers, self.proxy = [], None, None
        self.excused = 0

    def direct(self):
        return url_of(self.servers.path(self.servers.at))

    # ---- the faults

    def fault(self, what):
        rng, live = self.rng, [h for h in self.hosts if h.follower is not None]
        host = rng.choice(self.hosts[:2])
        pause = lambda: time.sleep(rng.random() * 0.4)
        if what == 'kill shipper':
            for _ in range(rng.randint(2, 4)):
                victim = rng.choice(live) if live else None
                if victim:
                    victim.end_follower(True)
                    time.sleep(rng.random() * 0.1)
                    victim.follow()
                pause()
        elif what == 'kill server':
            pause()
            self.servers.kill(self.servers.at)
            self.servers.start(self.servers.at)
        elif what == 'failover, synchronous' and self.servers.at == 'primary':
            pause()
            self.servers.promote('sync')
        elif what == 'failover, asynchronous' and self.servers.at == 'primary':
            self.servers.hold_back()
            for each in self.hosts[:2]:
                each.write(rng.randint(20, 60), 5)
            time.sleep(0.5 + rng.random())
            self.servers.promote('async')
        elif what == 'restored backup' and self.servers.ready:
            pause()
            self.servers.restore()
        elif what == 'compaction':
            for each in self.hosts if rng.random() < 0.5 else [host]:
                each.compact()
        elif what == 'redaction':
            host.redact()
        elif what == 'copy of a log':
            host.wait()
            host.end_follower(rng.random() < 0.5)
            if rng.random() < 0.5:
                host.ship()
            where = os.path.join(self.folder, host.name + '_copy')
            copy = Host(self, host.name + "'", where, host)
            host.may_conflict = copy.may_conflict = True
            self.hosts.append(copy)
            copy.write(rng.randint(1, 30))
            if rng.random() < 0.7:
                host.write(rng.randint(1, 30))
        elif what == 'log restored':
            host.wait()
            host.end_follower(False)
            host.may_conflict = True
            where = os.path.join(self.folder, host.name + '_old')
            old = Host(self, host.name, where, host)
            host.write(rng.randint(1, 40))
            host.wait()
            if rng.random() < 0.7:
                host.ship()
            shutil.copyfile(old.log, host.log)
            host.words, host.redacted, host.gone = old.words, old.redacted, old.gone
            host.write(rng.randint(0, 40))
            host.follow()
        elif what == 'cut network':
            for _ in range(rng.randint(3, 6)):
                self.proxy.cut_after(int(rng.expovariate(1 / 3000)))
                pause()
        elif what == 'silent network':
            self.proxy.hush(True)
            time.sleep(0.3 + rng.random())
            self.proxy.hush(False)
        elif what == 'two shippers':
            for _ in range(2):
                host.ship()
        elif what != 'keys of two hosts':
            return False
        return True

    def go(self):
        rng = self.rng
        self.proxy = Proxy(self.folder)
        self.servers = Servers(self.folder, self.template, self.proxy)
        self.url = url_of(','.join(self.proxy.path(name) for name in Servers.NAMES))
        self.hosts = [Host(self, n, os.path.join(self.folder, n)) for n in ('a', 'b')]
        for host in self.hosts:
            host.write(rng.randint(60, 150))
        for host in self.hosts:
            host.wait()
            if rng.random() < 0.5:
                host.ship()
            host.follow()
        done = []
        for fault in self.faults:
            if 'restored backup' in self.faults and not self.servers.ready:
                self.servers.back_up()
            for host in self.hosts[:2]:
                if rng.random() < 0.8:
                    host.write(rng.randint(5, 60), rng.choice([0, 0, 2, 10]))
            time.sleep(rng.random() * 0.5)
            if self.fault(fault):
                done.append(fault)
            for host in self.hosts:
                host.tend()
        for host in self.hosts[:2]:
            host.write(rng.randint(0, 20))
        for host in self.hosts:
            host.wait()
        time.sleep(rng.random())
        for host in self.hosts:
            host.end_follower(rng.random() < 0.3)
        self.proxy.cut_after(None)
        return done

    # ---- what it amounts to

    def settle(self):
        """Ships until each shipper is done, or stops. Returns how each ended."""
        ends = {}
        for _ in range(8):
            again = False
            for host in self.hosts:
                code, text, err = host.ship()
                ends[host] = code
                idle = re.search(': 0 messages, 0 changes shipped(, stopped)?$', text,
                                 re.MULTILINE) is not None
                again = again or not idle or code not in (0, CONFLICT)
            if not again:
                return ends
        raise Difference('the shippers come to no end: %s' % ends)

    def verify(self):
        ends = self.settle()
        rows = Rows(self)
        verdicts = {}
        for host in self.hosts:
            named = self.named(host)
            stopped = ends[host] != 0
            if (stopped and not host.may_conflict) or (
                    named and not (host.may_conflict or self.keys)):
                raise Difference('%s: a conflict without a reason: %s' %
                                 (host.name, host.output))
            if not stopped:
                self.compare(host, rows, named)
            verdicts[host.name] = 'conflict' if stopped or named else 'equal'
        lineages = {h.lineage() for h in self.hosts}
        for row in rows.rows:
            if row[2] == '1' and row[6] not in lineages:
                raise Difference('a row of no source: %s' % row)
        return verdicts

    @staticmethod
    def named(host):
        """Numbers of messages that the shipper named as left out."""
        return {int(n) for n in re.findall('message ([0-9]+) is left out', host.output)}

    def compare(self, host, rows, named):
        def differs(seq, what, *more):
            raise Difference('%s: message %s: %s %s' % (host.name, seq, what,
                                                        ' | '.join(map(str, more))))
        log = {m['seq']: m for m in host.view()}
        raw = host.view('--raw')
        keys = {(m.get('location'), m['key']): m['seq'] for m in raw
                if m['kind'] == 'message' and 'key' in m}
        stored = {m['seq'] for m in raw if m['kind'] == 'message'}
        there = rows.of_source(host.lineage(), keys)
        for seq in sorted(stored - named):
            if seq not in there:
                differs(seq, 'is not on the server', log.get(seq))
            here, shown = log.get(seq), rows.shown.get(there[seq])
            if here is None and shown is not None:
                differs(seq, 'is hidden in the log, and not on the server', shown)
            if here is not None and shown is None:
                differs(seq, 'is shown in the log, and not on the server', here)
            if here is not None and plain(here) != plain(shown):
                differs(seq, 'is another one', plain(here), plain(shown))
        for seq, number in there.items():
            if seq in stored or seq in named or rows.shown.get(number) is None:
                continue
            if seq in host.gone or isinstance(seq, tuple):
                self.excused += 1
                continue
            differs(seq, 'is on the server, and not in the log', rows.shown[number])
        self.compare_order(host, log, there, differs)
        self.compare_notes(raw, log, there, rows, named, differs)
        self.compare_facts(host, raw)
        self.compare_words(host, stored, named)

    @staticmethod
    def compare_order(host, log, there, differs):
        last = {}
        for seq in sorted(s for s in log if s in there):
            place = log[seq].get('location')
            if there[seq] < last.get(place, 0):
                differs(seq, 'is before an earlier one of its location')
            last[place] = there[seq]

    @staticmethod
    def compare_notes(raw, log, there, rows, named, differs):
        notes = collections.defaultdict(list)
        for m in raw:
            if m['kind'] == 'note' and m['seq'] in log and m['seq'] not in named:
                notes[m['seq']].append(json.dumps(plain(m), sort_keys=True))
        for seq in log:
            if seq in named:
                continue
            here, got = sorted(notes[seq]), sorted(rows.notes[there[seq]])
            if here != got:
                differs(seq, 'has other notes', here, got)

    def compare_facts(self, host, raw):
        for place in {m['location'] for m in raw if m['kind'] == 'location'}:
            here, got = (json.loads(run(self.tool, 'location', where, place).stdout)
                         for where in (host.log, self.direct()))
            if host.compacted and here == {}: # a compaction leaves no record of that
                self.excused += here != got
            elif here != got:
                raise Difference('%s: facts of %s: %s | %s' %
                                 (host.name, place, here, got))

    def compare_words(self, host, stored, named):
        """No word of a redacted message is in any row."""
        dead = [w for s in host.redacted if s not in named for w in host.words[s]
                if s in stored]
        for i in range(0, len(dead), 200):
            words = ','.join("'%s'" % w for w in dead[i:i + 200])
            left = self.servers.sql(
                'select w, r.seq, r.kind from msgstore_record r, unnest(array[%s]) w'
                " where position(convert_to(w, 'UTF8') in r.body) > 0" % words)
            if left:
                raise Difference('%s: a redacted word is on the server: %s' %
                                 (host.name, left[0]))

    def close(self):
        for host in self.hosts:
            for process in (host.follower, host.writer):
                if process is not None:
                    process.kill()
                    process.wait()
        if self.servers:
            self.servers.close()
        if self.proxy:
            self.proxy.close()


def deal(seed, rounds):
    """Faults for each round: a shuffled deck is dealt, again and again."""
    rng, deck, hands = random.Random(seed), [], []
    for _ in range(rounds):
        hand = []
        while len(hand) < PER_ROUND:
            if not deck:
                deck = FAULTS[:]
                rng.shuffle(deck)
            card = deck.pop()
            if card in hand:
                deck.insert(0, card)
            else:
                hand.append(card)
        hands.append(hand)
    return hands


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder')
    parser.add_argument('tool')
    parser.add_argument('writer')
    parser.add_argument('--rounds', type=int, default=4)
    parser.add_argument('--seed', type=int, default=20260101)
    parser.add_argument('--only', default='1-1000000')
    parser.add_argument('--seconds', type=float, default=1e9)
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('--stop', action='store_true')
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)) # and the servers end, too
    args.template = os.path.join(args.folder, 'rounds_template')
    run('bash', SERVER, 'make', args.template, *QUICK)
    nothing = os.path.join(args.folder, 'no_logs')
    os.makedirs(nothing)
    run(args.tool, 'ship', nothing, '--to', url_of(args.template)) # makes the tables
    run('bash', SERVER, 'stop', args.template, 'fast')
    table = collections.Counter()
    failed = excused = ran = 0
    begun = time.time()
    first, last = (args.only.split('-') * 2)[:2]
    for number, faults in enumerate(deal(args.seed, args.rounds), 1):
        start = time.time()
        over = start - begun > args.seconds or (args.stop and failed)
        if over or not int(first) <= number <= int(last):
            continue
        ran += 1
        proof = Proof(args, number, faults)
        label = 'round %d of seed %d (%s)' % (number, args.seed, '; '.join(faults))
        try:
            done = proof.go()
            verdicts = proof.verify()
            ends = ', '.join('%s %s' % each for each in sorted(verdicts.items()))
            print('%s: %s, %.1f s' % (label, ends, time.time() - start), flush=True)
            excused += proof.excused
            for fault in done:
                table[fault, 'rounds'] += 1
                for verdict in verdicts.values():
                    table[fault, verdict] += 1
        except (Difference, RuntimeError, subprocess.TimeoutExpired) as error:
            failed += 1
            print('ERROR: %s: %s: %s' % (label, type(error).__name__, error), flush=True)
        finally:
            proof.close()
        if not args.keep:
            shutil.rmtree(proof.folder, ignore_errors=True)
    for fault in FAULTS:
        print('tally: shipping, %-24s %3d rounds, %3d logs equal, %3d named a conflict' %
              (fault, table[fault, 'rounds'], table[fault, 'equal'],
               table[fault, 'conflict']))
    print('tally: shipping, %d rounds of seed %d, failed %d' % (ran, args.seed, failed))
    print('tally: shipping, hidden or removed before a compaction: %d' % excused)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()

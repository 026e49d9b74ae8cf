#!/usr/bin/env python3
"""The proof of shipping: rounds of random faults, after which each log and the server
have the same, or the shipper has stopped and named why.

  rounds.py FOLDER TOOL WRITER [--rounds N] [--seed N] [--only FIRST-LAST] [--seconds N]
            [--faults 'FAULT; FAULT'] [--keep] [--stop]

A round has three servers (a primary, a synchronous and an asynchronous replica), two
hosts with a log each, writers that append and change at random (writer.c), and a shipper
for each host, which goes through a proxy. Faults are dealt from a shuffled deck, four to
a round; both follow from the seed. --only 7 runs one of the rounds 1 to N, --only 7-9
three. With --faults each round has those. With --seconds no round begins later than
that. --keep leaves the folders, --stop ends after a round that fails. The exit code is 0
if at least one round ran and none failed, 2 if an argument is wrong.

Then all shippers run until they are done. A log whose shipper ended with 0 is compared
with the rows of its source: each message has one row under its number, in the order of
its location, with the content, flags, notes and facts that the log shows; what the log
does not show is hidden there; and of a redacted message no word is in any row. All else
is a silent difference: it fails, and prints seed, faults and the first message that
differs. These differences are announced, and accepted:

  message N is left out             the server lacks N, whose key another host has used
  a change of message N is left out N may differ
  PATH: message N: ..., stopped     exit code 5: the log is not compared. Only logs stop
                                    that were copied or restored, and of the copies of
                                    one log exactly one does not
  dropped N messages                of a compaction: N numbers, which the log does not
                                    have any more. The server may show what was hidden
                                    before and had not been shipped (docs/fleet.md), and
                                    facts of a location that had none any more then
                                    (backends/README.md)

Each run of a shipper must make exactly one report, and each line of its stderr must be of
exactly one form (class Report): counts, lines, and exit code must fit each other.

A message has two numbers. In this file `seq` is its number in the log, `number` that of
its row on the server.
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
import tempfile
import threading
import time

SERVER = 'tests/platform/postgres/server.sh'
FAULTS = ['kill shipper', 'kill server', 'failover, asynchronous',
          'failover, synchronous', 'restored backup', 'compaction', 'redaction',
          'copy of a log', 'log restored', 'cut network', 'silent network',
          'two shippers', 'keys of two hosts']
NEED_SHIPPER = ['kill shipper', 'cut network', 'silent network', 'two shippers']
PER_ROUND = 4
QUICK = ['fsync=off', 'full_page_writes=off', 'synchronous_commit=on', 'autovacuum=off',
         'wal_retrieve_retry_interval=100ms', 'max_wal_size=256MB']
FAILED, CONFLICT = 1, 5


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


# Why a log stops: message N and one of these.
STOPS = ['the server has another message with this number: the log was restored from an '
         'older copy, or is a copy that was written to; nothing of it is shipped',
         'the server has other changes after it: the log was restored from an older '
         'copy, or is one of two copies that were written to; nothing more of it is '
         'shipped',
         'it was shipped, and the log ends before it: this is an older copy of the log',
         'the source has shipped another message with this number',
         'the source has shipped another message with this key']
# Why a record is left out: the first two where two hosts use a key, the others of a copy.
KEYS = ['another source has used its key for another message',
        'the message that has its key is not of this log']
CHANGED = ['the message is hidden on the server', 'the message was not shipped',
           'the message is not an open stream on the server',
           'the message was changed on the server']


class Report:
    """What a run of `ship` said of its log: one line of stdout, and a line of stderr for
    each record that it left out, for what stopped the log, or for the server's error that
    ended the run. signalled: a signal ended it, perhaps before it could report."""

    LINE = re.compile(
        r'(?P<path>.+): (?P<messages>[0-9]+) messages?, (?P<changes>[0-9]+) changes? '
        r'shipped(, (?P<left_out>[1-9][0-9]*) do not fit what is there)?'
        r'(, (?P<waiting>[1-9][0-9]*) records? not durable yet: left for later)?'
        r'(, (?P<before>[1-9][0-9]*) left out before)?'
        r'(?P<cut>, interrupted before its end)?(?P<stopped>, stopped)?\n')

    def __init__(self, host, code, text, err, follower=False, signalled=False):
        self.host, self.code, self.text, self.err = host, code, text, err
        self.messages, self.changes = {}, {}    # left out: seq, and why
        self.stops, self.errors = [], []
        for line in err.splitlines():
            self.read_line(line)
        line = self.LINE.fullmatch(text)
        named = len(re.findall(' is left out: ', err))
        self.stopped = line is not None and line['stopped'] is not None
        self.idle = line is not None and not self.errors and (
            line['messages'] == line['changes'] == '0' and
            line['left_out'] is None and line['waiting'] is None)
        self.must(len(self.errors) <= 1 and len(self.stops) <= 1, 'it says more than why')
        if signalled and text == '' and (code < 0 or (code == 0 and err == '')):
            return # before it could report, or before it had begun
        if line is None: # the server was not reached
            self.must(text == '' and len(self.errors) == 1 and err.count('\n') == 1,
                      'it makes other than one report')
        else:
            self.must(line['path'] == host.log, 'it reports another log')
            self.must(line['before'] is None or host.messages or host.changes or named,
                      'nothing was left out before')
            self.must(line['cut'] is None or (follower and signalled),
                      'no signal has interrupted it')
            self.must(int(line['left_out'] or 0) == named, 'it counts %s records that do '
                      'not fit, and names %d' % (line['left_out'] or 0, named))
            self.must(len(self.stops) == self.stopped or (follower and self.stops),
                      'it does not say once why the log stopped')
        conflict = bool(named or self.stops)
        self.must(code == (FAILED if self.errors else CONFLICT if conflict else 0),
                  'its exit code does not fit')

    def must(self, holds, what):
        if not holds:
            raise Difference('%s: %s: exit code %d, %r, %r' % (
                self.host.name, what, self.code, self.text, self.err[-1500:]))

    def read_line(self, line):
        """Each line is of one form. Those about a record name the message."""
        log = 'msgstore: %s: ' % re.escape(self.host.log)
        found = re.fullmatch(log + '(a change of )?message ([0-9]+) is left out: (.*)',
                             line)
        stop = re.fullmatch(log + 'message ([0-9]+): (.*)', line)
        error = re.fullmatch('msgstore: ((message [0-9]+|shipping (a change|facts)|'
                             '(reading|noting) the position): .+|cannot connect.*|'
                             'the server .*)', line)
        self.must(sum(map(bool, (found, stop, error))) == 1,
                  'a line of other than one known form: %s' % line)
        if found:
            self.must(found[3] in KEYS + CHANGED, 'it leaves out for another reason')
            (self.changes if found[1] else self.messages)[int(found[2])] = found[3]
        elif stop:
            self.must(stop[2] in STOPS, 'it stops for another reason')
            self.stops.append((int(stop[1]), stop[2]))
        else:
            self.errors.append(line)


class Host:
    def __init__(self, proof, name, folder, original=None):
        self.proof, self.name, self.folder = proof, name, folder
        self.log = folder + '/agent.log'
        self.follower, self.said = None, None
        self.messages, self.changes = {}, {}    # left out: seq, and why
        self.words = collections.defaultdict(list)   # of each message
        self.redacted = set()
        self.dropped = set()      # messages that compactions have dropped
        self.bare = set()         # locations without facts at a compaction
        self.may_conflict = self.restored = False
        self.writer = None
        os.makedirs(folder)
        if original is not None:
            shutil.copyfile(original.log, self.log)
            self.take(original)

    def take(self, original):
        """Takes over what is known of a log that this one is a copy of."""
        self.words = collections.defaultdict(list)
        for seq, words in original.words.items():
            self.words[seq] = list(words)
        self.redacted, self.dropped = set(original.redacted), set(original.dropped)
        self.messages, self.changes = dict(original.messages), dict(original.changes)
        self.bare = set(original.bare)

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
        shown, raw = {m['seq'] for m in self.view()}, self.view('--raw')
        dropped = {m['seq'] for m in raw if m['kind'] == 'message'} - shown
        for place in {m['location'] for m in raw if m['kind'] == 'location'}:
            if self.proof.facts(self.log, place) == {}:
                self.bare.add(place)
        text = run(self.proof.tool, 'compact', self.log, self.log,
                   '--replace').stdout.decode()
        count = {what: int(n) for what, n in
                 re.findall('^(copied|dropped|lost) +([0-9]+) ', text, re.MULTILINE)}
        if count != {'copied': len(shown), 'dropped': len(dropped), 'lost': 0}:
            raise Difference('%s: a compaction of %d shown and %d hidden messages: %s' %
                             (self.name, len(shown), len(dropped), text))
        self.dropped |= dropped

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
        self.said = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.follower = subprocess.Popen(self.ship_args('--follow'), stdout=self.said[0],
                                         stderr=self.said[1])

    def tend(self):
        """As a supervisor does: starts a shipper that has ended."""
        if self.follower is not None and self.follower.poll() is not None:
            self.end_follower(True)
            self.follow()

    def end_follower(self, hard):
        if self.follower is None:
            return
        runs = self.follower.poll() is None
        self.follower.kill() if hard else self.follower.terminate()
        code = self.follower.wait()
        self.follower = None
        said = []
        for each in self.said:
            each.seek(0)
            said.append(each.read().decode(errors='replace'))
            each.close()
        self.hear(code, *said, follower=True, signalled=runs)

    def hear(self, *said, **more):
        report = Report(self, *said, **more)
        self.messages.update(report.messages)
        self.changes.update(report.changes)
        return report

    def ship(self):
        """Ships once; returns the report."""
        done = run(*self.ship_args(), check=False)
        return self.hear(done.returncode, done.stdout.decode(),
                         done.stderr.decode(errors='replace'))

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
    """A shown message without its number; a compacted log has no amendments. Of what a
    redaction has overwritten some texts are padded with spaces (ms_redact): on the server
    the message itself, in the compacted log its amendment has taken its place."""
    padded = message.get('redacted') and isinstance(message.get('content'), str)
    shown = dict(message, content=message['content'].rstrip(' ')) if padded else message
    return {k: v for k, v in shown.items() if k not in ('seq', 'kind')}


class Rows:
    """What the server has: rows by SQL, their content by the tool."""

    def __init__(self, proof):
        self.proof = proof
        self.rows = proof.servers.sql(
            "select encode(key, 'hex'), kind, seq, coalesce(upto, 0),"
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

    def of_source(self, lineage):
        """Numbers of a source's messages here, by their seq.

        The key of a shipped message (ms__pg_ship_keys, ms_pg_ship_free) is a letter, and
        then, integers being of 8 bytes, the highest first:

          k  the key that the message has in the log; column upto is the seq
          s  the lineage (16 bytes), the seq: the message has no key there
          x  the same: it had a key, which a later message of a compacted log has taken;
             column upto is the seq, too
        """
        found = {}
        for key, kind, number, upto, source in self.rows:
            if kind != '1' or source != lineage:
                continue
            raw, seq = bytes.fromhex(key), int(upto)
            if raw[:1] in (b's', b'x'):
                if raw[1:17].hex() != lineage or len(raw) != 25:
                    raise Difference('message %s on the server has the key %r' %
                                     (number, raw))
                seq = int.from_bytes(raw[17:], 'big')
            if raw[:1] not in (b's', b'x', b'k') or seq == 0 or (
                    raw[:1] != b's' and seq != int(upto)):
                raise Difference('message %s on the server has the key %r, upto %s' %
                                 (number, raw, upto))
            if seq in found:
                raise Difference('message %s has two rows' % seq)
            found[seq] = int(number)
        return found


class Proof:
    def __init__(self, args, nth, faults):
        self.tool, self.writer = os.path.abspath(args.tool), os.path.abspath(args.writer)
        self.rng = random.Random('%d/%d' % (args.seed, nth))
        self.folder = os.path.join(args.folder, 'round%d' % nth)
        self.faults, self.keys = faults, 'keys of two hosts' in faults
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o755)
        self.template = args.template
        self.hosts, self.servers, self.proxy = [], None, None
        self.excused = 0

    def direct(self):
        return url_of(self.servers.path(self.servers.at))

    def facts(self, log, place):
        return json.loads(run(self.tool, 'location', log, place).stdout)

    # ---- the faults

    def fault(self, what):
        """Returns whether there was one: a failover, for example, needs its replica."""
        rng = self.rng
        host = rng.choice(self.hosts[:2])
        if what in NEED_SHIPPER and host.follower is None: # after 'copy of a log'
            host.follow()
        live = [h for h in self.hosts if h.follower is not None]
        pause = lambda: time.sleep(rng.random() * 0.4)
        if what == 'kill shipper':
            for _ in range(rng.randint(2, 4)):
                victim = rng.choice(live)
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
            copy.write(rng.randint(5, 30))
            if rng.random() < 0.7:
                host.write(rng.randint(1, 30))
        elif what == 'log restored':
            host.wait()
            host.end_follower(False)
            host.may_conflict = host.restored = True
            where = os.path.join(self.folder, host.name + '_old')
            old = Host(self, host.name, where, host)
            host.write(rng.randint(1, 40))
            host.wait()
            if rng.random() < 0.7:
                host.ship()
            shutil.copyfile(old.log, host.log)
            host.take(old)
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
            if not any([self.ship_beside(host) for _ in range(2)]):
                raise Difference('%s: no second shipper ran beside the first' % host.name)
        elif what != 'keys of two hosts':
            return False
        return True

    @staticmethod
    def ship_beside(host):
        """Ships once, and returns whether the follower ran for all of that."""
        host.tend()
        host.ship()
        return host.follower.poll() is None

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
        """Ships until each shipper is done, or stops. Returns the last reports."""
        last = {}
        for _ in range(8):
            for host in self.hosts:
                last[host] = host.ship()
            if all(report.idle for report in last.values()):
                return last
        raise Difference('the shippers come to no end: %s' %
                         [(h.name, r.code, r.text, r.err) for h, r in last.items()])

    def verify(self):
        last = self.settle()
        rows = Rows(self)
        verdicts = {}
        for host, report in last.items():
            named = [*host.messages.items(), *host.changes.items()]
            alien = [each for each in named if not host.may_conflict and
                     not (self.keys and each[1] in KEYS)]
            if alien or (report.stopped and not host.may_conflict):
                raise Difference('%s: a conflict without a reason: %s %s' %
                                 (host.name, alien, report.err))
            if not report.stopped:
                self.compare(host, rows)
            verdicts[host.name] = ('stopped' if report.stopped else
                                   'named' if named else 'equal')
        self.compare_copies(last)
        lineages = {h.lineage() for h in self.hosts}
        for row in rows.rows:
            if row[1] == '1' and row[4] not in lineages:
                raise Difference('a row of no source: %s' % row)
        return verdicts

    @staticmethod
    def compare_copies(last):
        """Of the logs of one lineage one is the server's: the others have stopped. Where
        one was restored, it may have been that one, as it was before."""
        for lineage in {h.lineage() for h in last}:
            logs = [h for h in last if h.lineage() == lineage]
            shipped = [h.name for h in logs if not last[h].stopped]
            if len(shipped) > 1 or (not shipped and not any(h.restored for h in logs)):
                raise Difference('of the logs %s these are shipped: %s' %
                                 ([h.name for h in logs], shipped))

    def compare(self, host, rows):
        def differs(seq, what, *more):
            raise Difference('%s: message %s: %s %s' % (host.name, seq, what,
                                                        ' | '.join(map(str, more))))
        log = {m['seq']: m for m in host.view()}
        raw = host.view('--raw')
        stored = {m['seq'] for m in raw if m['kind'] == 'message'}
        there = rows.of_source(host.lineage())
        keyed = {m['seq'] for m in raw if m['kind'] == 'message' and 'key' in m}
        for seq in sorted(stored - set(there)):
            if seq not in host.messages:
                differs(seq, 'is not on the server', log.get(seq))
            if seq not in keyed:
                differs(seq, 'is left out, and has no key', log.get(seq))
        for seq in sorted(stored & set(there) - set(host.changes)):
            here, shown = log.get(seq), rows.shown.get(there[seq])
            if here is None and shown is not None:
                differs(seq, 'is hidden in the log, and not on the server', shown)
            if here is not None and shown is None:
                differs(seq, 'is shown in the log, and not on the server', here)
            if here is not None and plain(here) != plain(shown):
                differs(seq, 'is another one', plain(here), plain(shown))
        for seq in sorted(set(there) - stored):
            shown = rows.shown.get(there[seq])
            if seq not in host.dropped:
                differs(seq, 'is on the server, and not in the log', shown)
            self.excused += shown is not None
        self.compare_order(host, log, there, differs)
        self.compare_notes(host, raw, log, there, rows, differs)
        self.compare_facts(host, raw)
        self.compare_words(host, stored)

    @staticmethod
    def compare_order(host, log, there, differs):
        last = {}
        for seq in sorted(s for s in log if s in there):
            place = log[seq].get('location')
            if there[seq] < last.get(place, 0):
                differs(seq, 'is before an earlier one of its location')
            last[place] = there[seq]

    @staticmethod
    def compare_notes(host, raw, log, there, rows, differs):
        notes = collections.defaultdict(list)
        for m in raw:
            if m['kind'] == 'note':
                notes[m['seq']].append(json.dumps(plain(m), sort_keys=True))
        for seq in sorted(set(log) & set(there) - set(host.changes)):
            here, got = sorted(notes[seq]), sorted(rows.notes[there[seq]])
            if here != got:
                differs(seq, 'has other notes', here, got)

    def compare_facts(self, host, raw):
        places = {m['location'] for m in raw if m['kind'] == 'location'}
        for place in places | host.bare:
            here, got = (self.facts(where, place) for where in (host.log, self.direct()))
            if here == {} and place in host.bare: # a compaction leaves no record of that
                self.excused += here != got
            elif here != got:
                raise Difference('%s: facts of %s: %s | %s' %
                                 (host.name, place, here, got))

    def compare_words(self, host, stored):
        """No word of a redacted message is in any row."""
        dead = [w for seq in host.redacted & stored - set(host.changes)
                for w in host.words[seq]]
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


def chosen(parser, args):
    """The first and the last of the rounds to run."""
    if args.rounds < 1:
        parser.error('--rounds %d: at least 1' % args.rounds)
    if args.only is None:
        return 1, args.rounds
    found = re.fullmatch('([0-9]+)(-([0-9]+))?', args.only)
    first, last = (int(found[1]), int(found[3] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= args.rounds:
        parser.error('--only %s: the rounds are 1 to %d (--rounds)' %
                     (args.only, args.rounds))
    return first, last


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder')
    parser.add_argument('tool')
    parser.add_argument('writer')
    parser.add_argument('--rounds', type=int, default=4)
    parser.add_argument('--seed', type=int, default=20260101)
    parser.add_argument('--only')
    parser.add_argument('--faults')
    parser.add_argument('--seconds', type=float, default=1e9)
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('--stop', action='store_true')
    args = parser.parse_args()
    first, last = chosen(parser, args)
    hands = deal(args.seed, args.rounds)
    if args.faults:
        hand = [each.strip() for each in args.faults.split(';')]
        if not set(hand) <= set(FAULTS):
            parser.error('--faults: they are %s' % '; '.join(FAULTS))
        hands = [hand] * args.rounds
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
    for nth, faults in enumerate(hands, 1):
        start = time.time()
        over = start - begun > args.seconds or (args.stop and failed)
        if over or not first <= nth <= last:
            continue
        ran += 1
        proof = Proof(args, nth, faults)
        label = 'round %d of seed %d (%s)' % (nth, args.seed, '; '.join(faults))
        try:
            done = proof.go()
            verdicts = proof.verify()
            ends = ', '.join('%s %s' % each for each in sorted(verdicts.items()))
            absent = ''.join(', no ' + each for each in faults if each not in done)
            print('%s: %s%s, %.1f s' % (label, ends, absent, time.time() - start),
                  flush=True)
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
        print('tally: shipping, %-22s %3d rounds, logs: %3d equal, %3d but for what was '
              'named, %3d stopped' % (fault, *(table[fault, each] for each in (
                  'rounds', 'equal', 'named', 'stopped'))))
    print('tally: shipping, %d rounds of seed %d, failed %d' % (ran, args.seed, failed))
    print('tally: shipping, hidden or removed before a compaction: %d' % excused)
    if ran == 0:
        print('ERROR: no round ran')
    sys.exit(1 if failed or ran == 0 else 0)


if __name__ == '__main__':
    main()

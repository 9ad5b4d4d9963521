// Runs steps with a Node library: `node node.js memcached|memjs HOST:PORT`; lines as in steps.py.
'use strict';
const [library, server] = process.argv.slice(2);
const native = { text: 'héllo', number: 17, list: ['a', 1], long: 'x'.repeat(100000) };
let client;

function made() {
  if (library === 'memjs') {
    return require('memjs').Client.create(server, { timeout: 5, retries: 0 });
  }
  const Memcached = require('memcached');
  return new Memcached(server, {
    poolSize: 1,
    timeout: 30000,
    idle: 86400000, // an idle connection is closed, and gives its item back
    failures: 1e9, // after so many errors the server is left alone for five hours
    retry: 0, // and after each of them for so many milliseconds
  });
}

const raw = (found) => (Buffer.isBuffer(found) ? found : Buffer.from(String(found)));
const shown = (found, number) => {
  if (found === undefined || found === null || found === false) return 'none';
  const hex = raw(found).toString('hex');
  return ['value', hex === '' ? '-' : hex, ...(number === undefined ? [] : [number])].join(' ');
};

function step(verb, key, rest, answer) {
  const body = Buffer.from((rest[0] || '-') === '-' ? '' : rest[0], 'hex');
  const done = (error, result) => {
    // NOT_STORED is an error here.
    if (String(error) === 'Error: Item is not stored') return answer('false');
    return answer(error ? `error ${error}` : result ? 'true' : 'false');
  };
  const value = (error, found) => {
    if (error) return answer(`error ${error}`);
    if (verb === 'gets' && found) return answer(shown(found[key], found.cas));
    return answer(shown(found));
  };
  if (verb === 'new') {
    if (client) client.end ? client.end() : client.close();
    client = made();
    return answer('ok');
  }
  if (library === 'memjs') {
    if (verb === 'get') return client.get(key, value);
    if (verb === 'delete') return client.delete(key, done);
    if (verb === 'touch') return client.touch(key, Number(rest[0]), done);
    if (verb === 'native') return client.set(key, native[rest[0]], {}, done);
    if (!client[verb]) return answer('lacks');
    return client[verb](key, body, {}, done);
  }
  switch (verb) {
    case 'get': return client.get(key, value);
    case 'gets': return client.gets(key, value);
    case 'cas': return client.cas(key, body, rest[1], 0, done);
    case 'delete': return client.del(key, done);
    case 'touch': return client.touch(key, Number(rest[0]), done);
    case 'native': return client.set(key, native[rest[0]], 0, done);
    case 'append': return client.append(key, body, done);
    default: return client[verb](key, body, 0, done);
  }
}

// One step at a time: the next line is taken when the last one is answered.
const lines = require('readline').createInterface({ input: process.stdin });
let last = Promise.resolve();
lines.on('line', (line) => {
  const [verb, key, ...rest] = line.trim().split(' ');
  last = last.then(() => new Promise((resolve) => {
    const answer = (text) => {
      process.stdout.write(`${String(text).replace(/\s+/g, ' ')}\n`);
      resolve();
    };
    try { step(verb, key, rest, answer); } catch (error) { answer(`error ${error}`); }
  }));
});
lines.on('close', () => last.then(() => process.exit(0)));

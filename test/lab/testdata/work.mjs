// What a server does on a node, for Node.js, Bun and Deno alike: files, a child process, a name of the cluster, HTTP. It
// answers each request with what of it worked, as JSON.
import { spawn } from 'node:child_process';
import dns from 'node:dns/promises';
import fs from 'node:fs';
import http from 'node:http';

const done = {};
async function step(name, work) {
  try {
    done[name] = await work();
  } catch (e) {
    done[name] = `failed: ${e}`;
  }
}

await step('files', () => {
  fs.mkdirSync('C:\\work\\below', { recursive: true });
  fs.writeFileSync('C:\\work\\below\\one.txt', 'text');
  fs.renameSync('C:\\work\\below\\one.txt', 'C:\\work\\two.txt');
  const text = fs.readFileSync('C:\\work\\two.txt', 'utf8');
  fs.rmSync('C:\\work', { recursive: true });
  return fs.existsSync('C:\\work') ? 'not removed' : text;
});
await step('child', () => new Promise((resolve, reject) => {
  const child = spawn('findstr.exe', ['o']);
  let out = '';
  child.stdout.on('data', (d) => { out += d; });
  child.on('error', reject);
  child.on('close', (code) => resolve(out.split(/\s+/).join(' ') + code));
  child.stdin.end('one\r\nthree\r\ntwo\r\n');
}));
await step('name', async () => (await dns.lookup('kubernetes.default.svc.cluster.local')).address);
await step('output', () => { console.log('begins'); return 'written'; });

http.createServer((request, response) => {
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify(done));
}).listen(8080, '0.0.0.0', () => console.log('listens'));

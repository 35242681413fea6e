// Packs what was built, so that the server sends it as it is, says how much a browser has to fetch, and puts it where cargo takes it from. What
// is there already in the same form is left alone: cargo looks at times.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LIMIT = 300 * 1024;
const made = new URL("../node_modules/.page", import.meta.url).pathname;
const page = new URL("../dist/page", import.meta.url).pathname;
const files = (folder) => (existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(folder.length)).sort() : []);
let sent = 0;
for (const name of files(made)) {
  const bytes = readFileSync(join(made, name));
  const packed = gzipSync(bytes, { level: 9 });
  if (packed.length < bytes.length) writeFileSync(join(made, `${name}.gz`), packed);
  sent += Math.min(packed.length, bytes.length);
}
console.log(`the board is ${Math.ceil(sent / 1024)} KiB compressed`);
if (sent > LIMIT) {
  console.error(`that is more than ${LIMIT / 1024} KiB`);
  process.exit(1);
}
const all = files(made);
const same = all.join() === files(page).join() && all.every((name) => readFileSync(join(made, name)).equals(readFileSync(join(page, name))));
if (!same) {
  rmSync(page, { recursive: true, force: true });
  cpSync(made, page, { recursive: true });
}

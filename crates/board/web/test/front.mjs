// Stands in front of a server: a line that can be cut. It serves the page as it was built last, so that a change of the page can be walked through
// without building the server: LANDFALL_FRESH_PAGE=1.
import { existsSync, readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { extname, join } from "node:path";

const PAGE = new URL("../dist/page", import.meta.url).pathname;
const KINDS = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

export async function front(server) {
  const { hostname, port } = new URL(server);
  const made = createServer((asked, answer) => {
    const file = join(PAGE, asked.url === "/" ? "index.html" : asked.url.split("?")[0]);
    if (!asked.url.startsWith("/api") && file.startsWith(PAGE) && existsSync(file)) {
      answer.writeHead(200, { "content-type": KINDS[extname(file)] ?? "application/octet-stream" }).end(readFileSync(file));
      return;
    }
    const passed = request({ hostname, port, path: asked.url, method: asked.method, headers: asked.headers }, (said) => {
      answer.writeHead(said.statusCode, said.headers);
      said.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    answer.on("close", () => passed.destroy());
    asked.pipe(passed);
  });
  const lines = new Set();
  let isCut = false;
  made.on("connection", (line) => {
    if (isCut) line.destroy();
    lines.add(line);
    line.once("close", () => lines.delete(line));
  });
  await new Promise((done) => made.listen(0, "127.0.0.1", done));
  made.unref();
  const cut = (now) => {
    isCut = now;
    if (now) for (const line of lines) line.destroy();
  };
  return { url: `http://127.0.0.1:${made.address().port}`, cut };
}

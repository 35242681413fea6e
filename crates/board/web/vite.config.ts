import { defineConfig } from "vite";

// The page is one script and one style. While it is written, `npm run dev` serves it beside a server that runs: LANDFALL=http://127.0.0.1:7878
const server = process.env["LANDFALL"] ?? "http://127.0.0.1:7878";

export default defineConfig({
  build: { outDir: "node_modules/.page", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: false },
  server: { host: "127.0.0.1", proxy: { "/api": server, "/openapi.json": server } },
});

// Starts the small cluster of the tests and leaves it running, for work on the page: LANDFALL_PROGRAM=…/landfall node test/serve.mjs
import { World } from "./world.mjs";

const world = new World(process.env.LANDFALL_PROGRAM ?? "landfall");
process.on("SIGINT", () => world.end().then(() => process.exit(0)));
process.on("uncaughtException", (error) => { console.error(error); void world.end().then(() => process.exit(1)); });
await world.begin({ up: ["--stop-jobs"] });
await world.hollow(24, "--gpus", "8:A100:80GiB", "--pool", "gpu", "--prefix", "gpu", "--task-time", "5min..2h");
await world.hollow(16, "--cpus", "64", "--pool", "hpc", "--prefix", "hpc", "--task-time", "1min..30min");
await world.furnish();
console.log(`${world.url}\n${world.address}\n${world.admin}`);
setInterval(() => undefined, 1000);

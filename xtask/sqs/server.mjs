// A server that speaks the protocol of SQS, on the loopback only. PORT says where. CERTIFICATE and KEY, files, make it TLS,
// and QUEUE is a queue that it has from the beginning.
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { buildApp } from "fauxqs";

const app = buildApp({ logger: false, defaultRegion: "eu-west-1" });
const where = { port: Number(process.env.PORT), host: "127.0.0.1" };
if (process.env.QUEUE) {
  const headers = { "content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.CreateQueue" };
  await app.inject({ method: "POST", url: "/", headers, payload: JSON.stringify({ QueueName: process.env.QUEUE }) });
}
if (process.env.CERTIFICATE) {
  await app.ready();
  const files = { cert: readFileSync(process.env.CERTIFICATE), key: readFileSync(process.env.KEY) };
  createServer(files, (request, response) => app.server.emit("request", request, response)).listen(where);
} else {
  await app.listen(where);
}

// npm install standardwebhooks
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";
const webhook = new Webhook(process.env.SIGNING_KEY);
createServer(async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  try {
    console.log(webhook.verify(body, req.headers));
    res.writeHead(204).end();
  } catch { res.writeHead(401).end(); }
}).listen(process.env.PORT ?? 3000);

// Driver of the official TypeScript client, version 2.  Reads a job from stdin, prints one JSON line per step.

import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { json } from 'node:stream/consumers';

const MODES = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };

function transportOf({ transport, server }) {
  if (transport === 'stdio') return new StdioClientTransport(server);
  return new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } });
}

async function outcome(client, step) {
  if (!('tool' in step)) return { tools: (await client.listTools()).tools.map((tool) => tool.name) };
  try {
    const result = await client.callTool({ name: step.tool, arguments: step.arguments });
    const texts = result.content.filter((part) => part.type === 'text').map((part) => part.text);
    return { is_error: result.isError, texts, structured: result.structuredContent ?? null };
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

const job = await json(process.stdin);
const client = new Client(
  { name: 'typescript-v2', version: '2' },
  { versionNegotiation: { mode: MODES[job.era] } },
);
client.onerror = (error) => console.error(error);
await client.connect(transportOf(job));
console.log(JSON.stringify({ step: 'connect', revision: client.getNegotiatedProtocolVersion() }));
for (const step of job.steps) {
  console.log(JSON.stringify({ step: step.name, ...(await outcome(client, step)) }));
}
await client.close();

// Driver of the official TypeScript SDK, version 1.  Reads a job from stdin, prints one JSON line per step.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { json } from 'node:stream/consumers';

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
    if (!(error instanceof McpError)) throw error;
    // This SDK puts words of its own before the message of the server.
    const message = error.message.replace(`MCP error ${error.code}: `, '');
    return { error: { code: error.code, message, data: error.data } };
  }
}

const job = await json(process.stdin);
const client = new Client({ name: 'typescript-v1', version: '1' });
client.onerror = (error) => console.error(error);
const transport = transportOf(job);
// Over stdio the transport keeps no version; the HTTP one is told it after `initialize`.
let revision = null;
transport.setProtocolVersion = ((tell) => (version) => {
  revision = version;
  tell?.call(transport, version);
})(transport.setProtocolVersion);
await client.connect(transport);
console.log(JSON.stringify({ step: 'connect', revision }));
for (const step of job.steps) {
  console.log(JSON.stringify({ step: step.name, ...(await outcome(client, step)) }));
}
await client.close();

/**
 * Where the page's server has tools for agents. Alone here, because the tools are loaded with the
 * first request.
 */
export const MCP_PATH = "/mcp";

package api

import "agentbox/policy/secrets"

// Endpoints about the MCP servers of this host that boxes may use. Boxes themselves do not call them.
var (
	AddToolServer    = Endpoint[ToolServerRequest, ToolServer]{"/v1/tools/add"}
	ListToolServers  = Endpoint[PolicyRef, []ToolServer]{"/v1/tools/list"}
	RemoveToolServer = Endpoint[ToolServerRef, None]{"/v1/tools/remove"}
	LoginToolServer  = Endpoint[ToolLogin, None]{"/v1/tools/login"}
)

// ToolServer is an MCP server that boxes of a project, or of all, may use: a command of this host or
// a URL. It holds no credential, but where each is kept.
type ToolServer struct {
	Name      string                       `json:"name"`
	Project   string                       `json:"project,omitempty"` // "" for all
	Command   []string                     `json:"command,omitempty"`
	Directory string                       `json:"directory,omitempty"` // in which the command runs
	URL       string                       `json:"url,omitempty"`
	Env       map[string]secrets.Reference `json:"env,omitempty"`     // variables of the command
	Headers   map[string]secrets.Reference `json:"headers,omitempty"` // of requests to the URL
	Tools     []string                     `json:"tools,omitempty"`   // globs of those offered; none: all
	Args      []string                     `json:"args,omitempty"`    // TOOL.ARGUMENT=GLOB: what an argument has to be
}

// ToolServerRequest registers a server for a checkout's project.
type ToolServerRequest struct {
	PolicyRef
	Everywhere bool       `json:"everywhere,omitempty"`
	Server     ToolServer `json:"server"`
}

// ToolLogin logs the user in at a server. The page to open is the detail of a step LoginStep.
type ToolLogin struct {
	ToolServerRef
	ClientID string `json:"client_id,omitempty"` // of a client that the server knows; "" registers one
}

// LoginStep is the step of a login in which a person acts in a browser.
const LoginStep = "login"

// ToolServerRef names a server of a checkout's project.
type ToolServerRef struct {
	PolicyRef
	Name string `json:"name"`
}

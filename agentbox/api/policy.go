package api

import (
	"agentbox/agentbox"
	"agentbox/agentbox/task/agents"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// The calls about what boxes may do. Unless Everywhere is set, they concern one repository: that of
// the box, or of the directory.
var (
	// ShowPolicy returns what is in force, and what waits for approval.
	ShowPolicy = Endpoint[PolicyRef, PolicyReport]{"/v1/policy/show"}
	// CheckPolicy returns the gateway's decision about a flow, without sending anything.
	CheckPolicy = Endpoint[CheckRequest, CheckReport]{"/v1/policy/check"}
	// ChangePolicy changes the user's rules. Running boxes follow at once.
	ChangePolicy = Endpoint[ChangeRequest, PolicyReport]{"/v1/policy/change"}
	// ApprovePolicy approves exactly what has the digest of the request; else it is Conflict.
	ApprovePolicy = Endpoint[ApproveRequest, PolicyReport]{"/v1/policy/approve"}
	// FindAgent returns the profile of an agent.
	FindAgent = Endpoint[AgentRequest, agents.Profile]{"/v1/agent/find"}
	// ListAgents returns all agents for boxes of a checkout, those of the repository included.
	ListAgents = Endpoint[PolicyRef, []AgentInfo]{"/v1/agent/list"}
	// KeepHistory saves what the agents of a box remember, without waking the box.
	KeepHistory = Endpoint[BoxRef, None]{"/v1/agent/history"}
	// AuditLog returns a policy.Entry as JSON on each line. It also works for a removed box, by its
	// ID or a prefix of it.
	AuditLog = Download[AuditRequest]{"/v1/policy/log"}
	// VerifyAudit checks the log of a box. It is Corrupt if the chain of its entries is broken.
	VerifyAudit = Endpoint[BoxRef, AuditVerified]{"/v1/policy/verify"}
	// SetSecret is Missing if the value needs a keyring and there is none.
	SetSecret = Endpoint[SecretRequest, SecretInfo]{"/v1/secret/set"}
	// ListSecrets returns the secrets of a repository and those for all. It runs no commands.
	ListSecrets = Endpoint[PolicyRef, []SecretInfo]{"/v1/secret/list"}
	// BorrowSecret returns the value of a secret that the owner of a task on another machine lends to the
	// task's box. Supervisors call it for each use.
	BorrowSecret = Endpoint[LentSecret, string]{"/v1/secret/borrow"}
	// LendSecrets opens the socket, whose path it returns, at which LendValue answers, and nothing else. It
	// stays open as long as the daemon runs, and again when it starts, while secrets are set for the host.
	LendSecrets = Endpoint[LendRequest, string]{"/v1/secret/lend"}
	// LendValue returns the present value of a secret that was set for the host of the socket.
	LendValue = Endpoint[LentValue, string]{"/v1/secret/value"}
	// RemoveSecret succeeds with a Problem if only the keyring entry cannot be removed.
	RemoveSecret = Endpoint[SecretRef, SecretInfo]{"/v1/secret/remove"}
)

// PolicyRef names the repository whose policy is meant: that of the box if there is one, else the
// one that contains Directory.
type PolicyRef struct {
	BoxRef
	// Source is meant instead of Directory, which is on another machine.
	Source *agentbox.SourceRef `json:"source,omitempty"`
	// Devcontainer is the NAME of the .devcontainer/NAME/devcontainer.json that is meant.
	Devcontainer string   `json:"devcontainer,omitempty"`
	Environ      []string `json:"environ,omitempty"` // the caller's: its variables configure registries
	// Refresh asks the host's tools again where packages come from.
	Refresh bool `json:"refresh,omitempty"`
}

// AgentRequest names an agent for boxes of a checkout. A profile that the repository provides is
// Conflict until it is approved.
type AgentRequest struct {
	PolicyRef
	Agent string `json:"agent"`
}

// AgentInfo describes an agent. The profile of a repository may not be approved yet.
type AgentInfo struct {
	Name        string        `json:"name"`
	Description string        `json:"description"` // or what is wrong with its profile
	Program     string        `json:"program"`
	Origin      agents.Origin `json:"origin"`
}

// PolicyReport is a policy as it is in force, layer by layer, with what the repository asks for
// beyond that. Plan is what is not approved yet, and Digest identifies all that the repository asks
// for, approved or not, for ApproveRequest.
type PolicyReport struct {
	Directory string          `json:"directory"`
	Project   string          `json:"project"`
	Preset    string          `json:"preset"`
	Layers    []policy.Layer  `json:"layers"`
	Secrets   []SecretInfo    `json:"secrets,omitempty"`
	Plan      []policy.Change `json:"plan,omitempty"`   // what waits for approval
	Digest    string          `json:"digest,omitempty"` // of what is approved if Plan is
	// Boxes names the running boxes that received the change.
	Boxes []string `json:"boxes,omitempty"`
}

// CheckRequest asks for the decision about a flow: a URL, or a host with a port.
type CheckRequest struct {
	PolicyRef
	URL    string `json:"url"`
	Method string `json:"method,omitempty"`
}

// CheckReport is the decision. Addresses are what the name resolves to on this host now; each is
// decided about again when it is dialled.
type CheckReport struct {
	URL       string         `json:"url"`
	Verdict   policy.Verdict `json:"verdict"`
	Addresses []string       `json:"addresses,omitempty"`
	Secrets   []string       `json:"secrets,omitempty"` // names of those that may be sent with it
}

// ChangeRequest adds or removes the user's rules, or chooses a preset.
type ChangeRequest struct {
	PolicyRef
	Everywhere bool     `json:"everywhere,omitempty"` // for all repositories
	List       string   `json:"list"`                 // allow, deny or private
	Rules      []string `json:"rules,omitempty"`
	Remove     bool     `json:"remove,omitempty"`
	Preset     *string  `json:"preset,omitempty"` // "" leaves the choice to the repository again
}

// ApproveRequest approves the repository's own policy as it was when it had this digest. If the
// repository has changed since, the call is Conflict, so that nobody approves what they have not
// seen.
type ApproveRequest struct {
	PolicyRef
	Digest string `json:"digest"`
}

// AuditRequest asks for the entries of a box's audit log and, with Follow, for those that are
// written from then on.
type AuditRequest struct {
	BoxRef
	Follow bool `json:"follow,omitempty"`
}

// AuditVerified is an audit log whose chain is whole.
type AuditVerified struct {
	Box     string `json:"box"`
	Entries uint64 `json:"entries"`
	First   uint64 `json:"first"` // number of the first; above 1 if older ones were removed
	Last    uint64 `json:"last"`
	Head    string `json:"head"` // hash of the last entry
}

// LentSecret is a secret of a box.
type LentSecret struct {
	Box  agentbox.BoxID `json:"box"`
	Name string         `json:"name"`
}

// Lent is what a secret of this machine is for: boxes of a project on another one, "" for all.
type Lent struct {
	Host    string `json:"host"`
	Project string `json:"project,omitempty"`
}

// LentValue asks for the value of a secret that was set for the machine that asks.
type LentValue struct {
	Project string `json:"project,omitempty"`
	Name    string `json:"name"`
}

// LendRequest asks for the socket at which the secrets of a machine's boxes are answered for. Variables
// of Environ may have their values.
type LendRequest struct {
	Host    string   `json:"host"`
	Environ []string `json:"environ,omitempty"`
}

// SecretRequest sets a secret. Value goes into the keyring and nowhere else.
type SecretRequest struct {
	PolicyRef
	Everywhere bool              `json:"everywhere,omitempty"`
	Name       string            `json:"name"`
	From       secrets.Reference `json:"from"`
	To         []string          `json:"to"` // rules
	Header     string            `json:"header,omitempty"`
	Form       policy.Form       `json:"form,omitempty"`
	User       string            `json:"user,omitempty"`
	Value      string            `json:"value,omitempty"`
	// LentTo: no box here may use it, but those of another machine.
	LentTo *Lent `json:"lent_to,omitempty"`
}

// SecretRef names a secret.
type SecretRef struct {
	PolicyRef
	Name   string `json:"name"`
	LentTo *Lent  `json:"lent_to,omitempty"` // as SecretRequest's
}

// SecretInfo describes a secret. It never contains the value: no call returns one.
type SecretInfo struct {
	policy.Secret
	From    string `json:"from"`
	Project string `json:"project,omitempty"` // "" for all projects
	Problem string `json:"problem,omitempty"` // why there is no value now
}

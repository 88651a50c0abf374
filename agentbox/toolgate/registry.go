package toolgate

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

// Registry is the file with the user's servers. Its methods may be called concurrently.
type Registry struct {
	File   string
	Logins string // the file with the tokens of OAuth
	mu     sync.Mutex

	renewing sync.Mutex // held while a token is renewed
}

// maxServers bounds the registrations of a user.
const maxServers = 64

var (
	serverName = agentbox.Pattern(`^[a-z][a-z0-9-]{0,31}$`)
	variable   = agentbox.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	header     = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)
)

// List is all registrations, sorted by name.
func (r *Registry) List() ([]api.ToolServer, error) {
	b, err := os.ReadFile(r.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []api.ToolServer
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "cannot read the registered MCP servers: %w", err).WithHint("mend %s, or remove it and add them again", r.File)
	}
	return list, nil
}

// For is what boxes of a project get. A registration for the project hides one for all of the same
// name.
func (r *Registry) For(project string) ([]api.ToolServer, error) {
	all, err := r.List()
	var out []api.ToolServer
	for _, s := range all {
		own := slices.ContainsFunc(all, func(o api.ToolServer) bool { return o.Name == s.Name && o.Project == project })
		if s.Project == project || s.Project == "" && !own {
			out = append(out, s)
		}
	}
	return out, err
}

// Add adds a server, or replaces the one with its name and project.
func (r *Registry) Add(s api.ToolServer) error {
	if err := check(s); err != nil {
		return err
	}
	return r.change(func(list []api.ToolServer) ([]api.ToolServer, error) {
		list = append(slices.DeleteFunc(list, func(o api.ToolServer) bool { return o.Name == s.Name && o.Project == s.Project }), s)
		if len(list) > maxServers {
			return nil, agentbox.Errorf(agentbox.Invalid, "%d MCP servers are registered, the most there may be", maxServers).WithHint("agentbox mcp rm NAME removes one")
		}
		slices.SortFunc(list, func(a, b api.ToolServer) int { return strings.Compare(a.Name+" "+a.Project, b.Name+" "+b.Project) })
		return list, nil
	})
}

// Remove removes what boxes of a project have under a name, and the login there. The error is NotFound if
// that is nothing.
func (r *Registry) Remove(name, project string) error {
	s, err := r.Find(name, project)
	if err != nil {
		return err
	}
	err = r.change(func(list []api.ToolServer) ([]api.ToolServer, error) {
		return slices.DeleteFunc(list, func(o api.ToolServer) bool { return loginKey(o) == loginKey(s) }), nil
	})
	if err != nil || s.URL == "" {
		return err
	}
	return r.changeLogins(func(all map[string]login) { delete(all, loginKey(s)) })
}

// Find is what boxes of a project have under a name. The error is NotFound if that is nothing.
func (r *Registry) Find(name, project string) (api.ToolServer, error) {
	all, err := r.For(project)
	if err != nil {
		return api.ToolServer{}, err
	}
	if i := slices.IndexFunc(all, func(s api.ToolServer) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	return api.ToolServer{}, agentbox.Errorf(agentbox.NotFound, "no MCP server %q is registered for this repository", name).WithHint("agentbox mcp ls lists them")
}

func (r *Registry) change(change func([]api.ToolServer) ([]api.ToolServer, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, err := r.List()
	if err != nil {
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(r.File, append(b, '\n'), 0o600)
}

// check refuses a registration that could not work, or would send a credential in the clear.
func check(s api.ToolServer) error {
	u, err := url.Parse(s.URL)
	remote := s.URL != ""
	invalid := func(format string, args ...any) *agentbox.Error {
		return agentbox.Errorf(agentbox.Invalid, format, args...)
	}
	switch {
	case !serverName().MatchString(s.Name):
		return invalid("%q cannot name an MCP server", s.Name).WithHint("use lower-case letters, digits and dashes: it begins the names of its tools")
	case remote == (len(s.Command) > 0):
		return invalid("%s needs a command or a URL", s.Name).WithHint("agentbox mcp add NAME -- COMMAND..., or agentbox mcp add NAME https://HOST/PATH")
	case remote && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http"):
		return invalid("%q is not a URL of an MCP server", s.URL).WithHint("for example https://mcp.example.com/mcp")
	case remote && u.User != nil:
		return invalid("a URL with a password would be kept in a file").WithHint("--header 'Authorization=keyring:NAME' sends a credential")
	case remote && u.Scheme == "http" && len(s.Headers) > 0 && u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1":
		return invalid("%s would send a credential in the clear", s.Name).WithHint("use https")
	}
	for name := range s.Env {
		if remote || !variable().MatchString(name) {
			return invalid("--env %q is not a variable of a command", name)
		}
	}
	for name := range s.Headers {
		if !remote || !header().MatchString(name) {
			return invalid("--header %q is not a header of a request to a URL", name)
		}
	}
	for _, rule := range s.Args {
		if _, _, _, ok := splitArg(rule); !ok {
			return invalid("--arg %q is not TOOL.ARGUMENT=GLOB", rule).WithHint("for example 'read_file.path=/srv/docs/*'")
		}
	}
	return nil
}

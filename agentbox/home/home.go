package home

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// Home is where one daemon keeps everything. Two homes on one machine know nothing of each other.
//
//	daemon.lock             held by the daemon
//	daemon.log
//	ssh_config              what `ssh-config --install` has ~/.ssh/config include
//	k8s.yaml                what the user says of clusters, see agentbox/kube
//	k8s/                    layers of images on their way to a registry
//	rates.yaml              the user's price table, see agentbox/cost
//	tokens.json             the tokens of other programs, by their hashes; see agentbox/token
//	mcp.json                MCP servers of this host for agents in boxes, see agentbox/toolgate
//	mcp-logins.json         tokens of those that the user logged in at
//	agents/NAME.yaml        the user's own profiles of agents
//	host/                   what drivers know about this host, and from which registries.json packages come
//	host/toolchains/<key>.json  how a set of tools was installed, and the image that has it
//	images/                 layer 0, see vmm/image
//	kernels/                guest kernels, see vmm/kernel
//	templates/<key>/        booted, quiesced machines
//	programs/<build>/       the programs of a daemon, unpacked
//	store/                  everything that can be fetched or made again, see cachestore
//	store.key               signs the names in it; its hash is this machine's PeerID
//	mesh/                   the team, see mesh
//	places.json             where images came from and went to
//	shared.json             what the user lets the team have, and what not
//	contexts.json           which members may enter what, see agentbox/contexts
//	ahead.json              what came of contexts of others before anybody entered them
//	entered.json            boxes of others that were entered where they are
//	checks-of-ci.json       how boxes and CI differed, see agentbox/identity
//	copies/                 what tasks of others left, to enter while those are away: TASK@PEER.json
//	boxes/<id>/             see Box
//	policy/                 see Policy
//	audit/<id>/             what a box tried to reach; kept when the box is gone, until it is pruned
//	mirrors/<project>.git   bare repositories with what was done in boxes, see snapshot
//	sources/<digest>/       what queued tasks and boxes are made from, see agentbox/source
//	checks/<digest>/        a module of a repository's checks, and what it was compiled to, see agentbox/check
//	tasks/<id>/             a task or a run, and its evidence, see agentbox/task
//	idle.json               when this machine runs tasks of others, see agentbox/idle
//	schedules/<id>.json     when tasks are submitted, see agentbox/task/schedule
//	sessions/<project>/<agent>/kept.tar  an agent's conversations; never unpacked here
//	ssh/<host>.<id>/        the key and host key of a box for stock ssh, see agentbox/reach
//	lima/                   the Lima machine of this home, see agentbox/lima; a Lima home
//	lima-programs/<build>/  the program that runs it, unpacked
//	run/                    sockets and locks: a directory, or a link into the runtime directory of the session
//	run/daemon.sock         the API
//	run/tools.sock          where supervisors pass on what boxes say to those servers
//	run/<id>/               see Box
//	hosts/<name>.json       another machine, see agentbox/reach; bin/ has what that one was brought
//	run/c/<client>.<n>      where other machines are asked for values of secrets, see agentbox/reach
//	run/h<name>/            the connection to it: that of ssh, and what is forwarded by it
type Home struct {
	Dir string
}

// The programs in a directory of Home.Programs.
const (
	DaemonProgram     = "agentbox-daemon"
	SupervisorProgram = "agentbox-supervisor"
	CheckProgram      = "agentbox-check"
	LimaProgram       = "agentbox-lima" // in LimaPrograms
)

// EnvDir is the environment variable that sets the home.
const EnvDir = "AGENTBOX_HOME"

// maxDir keeps run/<id>/control.sock within the 107 bytes that a unix socket's path may have.
const maxDir = 107 - len("/run/0123456789ab/control.sock")

// Find returns the home of this user: $AGENTBOX_HOME, or agentbox/ in the XDG data directory.
func Find() (Home, error) {
	dir := os.Getenv(EnvDir)
	if dir == "" {
		base := os.Getenv("XDG_DATA_HOME")
		if base == "" {
			user, err := os.UserHomeDir()
			if err != nil {
				return Home{}, agentbox.Errorf(agentbox.Missing, "no home directory: %w", err).WithHint("set %s to a directory of yours", EnvDir)
			}
			base = filepath.Join(user, ".local", "share")
		}
		dir = filepath.Join(base, "agentbox")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, err
	}
	if len(dir) > maxDir {
		return Home{}, agentbox.Errorf(agentbox.Invalid, "%s is too long for the sockets in it (%d bytes, at most %d)", dir, len(dir), maxDir).
			WithHint("set %s to a shorter path", EnvDir)
	}
	return Home{Dir: dir}, nil
}

// Create makes the directories of the home, private to the user.
func (h Home) Create() error {
	for _, dir := range []string{h.Dir, h.State(), h.Images(), h.Kernels(), h.Templates(), h.Boxes()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return agentbox.Errorf(agentbox.Missing, "cannot make %s: %w", dir, err).WithHint("set %s to a directory you can write", EnvDir)
		}
		if err := private(dir); err != nil {
			return err
		}
	}
	spread(h.Boxes())
	if err := h.createRun(); err != nil {
		return err
	}
	return private(h.Run())
}

// createRun makes run/. In the default home it links into the session's runtime directory, which
// the system empties at logout or reboot; any other home keeps its sockets inside.
func (h Home) createRun() error {
	session := os.Getenv("XDG_RUNTIME_DIR")
	if target, err := os.Readlink(h.Run()); err == nil {
		return os.MkdirAll(target, 0o700)
	}
	if _, err := os.Stat(h.Run()); err == nil || session == "" || os.Getenv(EnvDir) != "" {
		return os.MkdirAll(h.Run(), 0o700)
	}
	// Two homes of one user (XDG_DATA_HOME differs) share a session and must not share sockets.
	sum := sha256.Sum256([]byte(h.Dir))
	target := filepath.Join(session, "agentbox-"+hex.EncodeToString(sum[:4]))
	if err := os.MkdirAll(target, 0o700); err != nil {
		return os.MkdirAll(h.Run(), 0o700)
	}
	return os.Symlink(target, h.Run())
}

func (h Home) Lock() string { return filepath.Join(h.Dir, "daemon.lock") }
func (h Home) Log() string  { return filepath.Join(h.Dir, "daemon.log") }

// Programs has a directory for the build that was used last, with the programs of a daemon in it.
func (h Home) Programs() string  { return filepath.Join(h.Dir, "programs") }
func (h Home) State() string     { return filepath.Join(h.Dir, "host") }
func (h Home) Images() string    { return filepath.Join(h.Dir, "images") }
func (h Home) Kernels() string   { return filepath.Join(h.Dir, "kernels") }
func (h Home) Templates() string { return filepath.Join(h.Dir, "templates") }
func (h Home) Store() string     { return filepath.Join(h.Dir, "store") }
func (h Home) StoreKey() string  { return filepath.Join(h.Dir, "store.key") }
func (h Home) Mesh() string      { return filepath.Join(h.Dir, "mesh") }
func (h Home) Remotes() string   { return filepath.Join(h.Dir, "places.json") }
func (h Home) Shared() string    { return filepath.Join(h.Dir, "shared.json") }
func (h Home) Copies() string    { return filepath.Join(h.Dir, "copies") } // contexts of others, ID.json
func (h Home) Ahead() string     { return filepath.Join(h.Dir, "ahead.json") }
func (h Home) Entered() string   { return filepath.Join(h.Dir, "entered.json") }
func (h Home) Allowed() string   { return filepath.Join(h.Dir, "contexts.json") }
func (h Home) CIChecks() string  { return filepath.Join(h.Dir, "checks-of-ci.json") }
func (h Home) Boxes() string     { return filepath.Join(h.Dir, "boxes") }
func (h Home) AuditLogs() string { return filepath.Join(h.Dir, "audit") }
func (h Home) Run() string       { return filepath.Join(h.Dir, "run") }
func (h Home) Socket() string    { return filepath.Join(h.Run(), "daemon.sock") }

// ToolsSocket is where supervisors pass on what boxes say to the tool servers of the user, whose list
// is in Tools. A connection begins with a line that names the box (package toolgate).
func (h Home) ToolsSocket() string { return filepath.Join(h.Run(), "tools.sock") }
func (h Home) Tools() string       { return filepath.Join(h.Dir, "mcp.json") }
func (h Home) ToolLogins() string  { return filepath.Join(h.Dir, "mcp-logins.json") }

// Lima is the Lima home of this home's machine, LimaPrograms like Programs for what runs it.
func (h Home) Lima() string         { return filepath.Join(h.Dir, "lima") }
func (h Home) LimaPrograms() string { return filepath.Join(h.Dir, "lima-programs") }

// Mirrors is the directory of all mirrors.
func (h Home) Mirrors() string { return filepath.Join(h.Dir, "mirrors") }

// Mirror is the bare repository with a project's work from boxes.
func (h Home) Mirror(project string) string { return filepath.Join(h.Mirrors(), project+".git") }

// Sources is the directory of all sources.
func (h Home) Sources() string { return filepath.Join(h.Dir, "sources") }

// SourceTree is the tree of a source, which is a checkout that never changes.
func (h Home) SourceTree(d agentbox.Digest) string {
	return filepath.Join(h.Sources(), d.Hex(), "tree")
}

// Checks is the directory of the modules of checks.
func (h Home) Checks() string { return filepath.Join(h.Dir, "checks") }

// Tasks is the directory of all tasks.
func (h Home) Tasks() string { return filepath.Join(h.Dir, "tasks") }

// Idle is when this machine runs tasks of others (package idle).
func (h Home) Idle() string { return filepath.Join(h.Dir, "idle.json") }

// Schedules has when tasks are submitted (package schedule).
func (h Home) Schedules() string { return filepath.Join(h.Dir, "schedules") }

// SSHKeys is the directory of what stock ssh reads of boxes.
func (h Home) SSHKeys() string { return filepath.Join(h.Dir, "ssh") }

// Host is the record of another machine.
func (h Home) Host(name string) string { return filepath.Join(h.Dir, "hosts", name+".json") }

// LendSocket is where the secrets of boxes on another machine are answered for; Clients has the sockets
// by which this machine asks others so, CLIENT.CONNECTION. They are made by ssh.
func (h Home) LendSocket(name string) string { return filepath.Join(h.Link(name), "l") }
func (h Home) Clients() string               { return filepath.Join(h.Run(), "c") }

// Link is the directory of the connection to another machine. ssh adds 17 bytes to the name of its
// socket while it makes it, so this name is short.
func (h Home) Link(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(h.Run(), "h"+hex.EncodeToString(sum[:2]))
}

// Registries caches where this machine's package managers get packages from.
func (h Home) Registries() string { return filepath.Join(h.State(), "registries.json") }

// Toolchain records how one set of tools was installed. key is the hexadecimal digest of what they
// depend on.
func (h Home) Toolchain(key string) string {
	return filepath.Join(h.State(), "toolchains", key+".json")
}

// Agents is the directory of the user's own profiles of agents, NAME.yaml each.
func (h Home) Agents() string { return filepath.Join(h.Dir, "agents") }

// Tokens is the tokens of other programs.
func (h Home) Tokens() string { return filepath.Join(h.Dir, "tokens.json") }

// Kubernetes is what the user says of clusters; see agentbox/kube.
func (h Home) Kubernetes() string       { return filepath.Join(h.Dir, "k8s.yaml") }
func (h Home) KubernetesLayers() string { return filepath.Join(h.Dir, "k8s") }

// Rates is the user's own price table; see agentbox/cost.
func (h Home) Rates() string { return filepath.Join(h.Dir, "rates.yaml") }

// Sessions is the directory of one agent's conversations about one project.
func (h Home) Sessions(project, agent string) string {
	return filepath.Join(h.Dir, "sessions", project, agent)
}

// Audit is the directory of one box's audit log.
func (h Home) Audit(id agentbox.BoxID) string { return filepath.Join(h.AuditLogs(), id.String()) }

// Policy has the names of what the user and the user's organization decided. Boxes cannot reach any
// of it.
//
//	policy/organisation.yaml              the most that anybody's boxes here may do; SystemPolicy, too
//	policy/user.yaml                      the user's rules for all repositories
//	policy/secrets.json                   where values of secrets are kept; no values
//	policy/projects/<id>/project          which project the rules are for
//	policy/projects/<id>/user.yaml        the user's rules for this project
//	policy/projects/<id>/approved/<digest>.yaml  each document that a person approved for it
//	policy/projects/<id>/pins             digests of images that boxes of the project were made from
type Policy struct {
	Dir string
}

// SystemPolicy is the organization's file for all users of a machine.
const SystemPolicy = "/etc/agentbox/policy.yaml"

// Policy returns the names below policy/.
func (h Home) Policy() Policy { return Policy{Dir: filepath.Join(h.Dir, "policy")} }

func (p Policy) Organisation() string { return filepath.Join(p.Dir, "organisation.yaml") }
func (p Policy) User() string         { return filepath.Join(p.Dir, "user.yaml") }
func (p Policy) Secrets() string      { return filepath.Join(p.Dir, "secrets.json") }

// Project is the directory with the decisions about one project; id is that of package project.
func (p Policy) Project(id string) string { return filepath.Join(p.Dir, "projects", id) }

// Template is the directory of one template.
func (h Home) Template(key string) string { return filepath.Join(h.Templates(), key) }

// Box has the names of one box.
//
//	boxes/<id>/box.json          the record, replaced as a whole
//	boxes/<id>/key               the SSH key that may log in, for as long as the box exists
//	boxes/<id>/authority.pem     the certificate authority that the box and its forks trust, with its key
//	boxes/<id>/known_hosts       the SSH host key of the present life
//	boxes/<id>/supervisor.log, setup.log
//	boxes/<id>/exit.json         why the last supervisor ended; its reader removes it
//	boxes/<id>/begin/            what was uncommitted when the workspace was made, see snapshot.RecordBaseline
//	boxes/<id>/workspace-<n>     layer 2, in the driver's form; the record says which n is the present one
//	boxes/<id>/life-<n>/         layer 3 and the console of one machine; the record says which n is the present one
//	boxes/<id>/saved/            the machine of a paused box
//	boxes/<id>/resuming/         the same while it is being resumed
//	boxes/<id>/checkpoints/<id>/
//	boxes/<id>/staging/          a repository on its way into a workspace, if not staged in memory
//	boxes/<id>.removed/          a box that is being removed
//	boxes/<id>/jobs/<job>/       what a job was, wrote and ended with; see agentbox/job
//	boxes/<id>/account.json      what the machines of a task's box have used; see supervisor.Account
//	boxes/<id>/place.json        the present life of a box on another machine; see place/ssh
//	boxes/<id>/service-logs/     <service>.log, the end of each, when a task's machine ended
//	run/<id>/lock                held by the supervisor, which writes its process id into it
//	run/<id>/control.sock        the supervisor's API
//	run/<id>/ssh.sock            SSH into the box
type Box struct {
	Dir, Run string
}

// Box returns the names of one box.
func (h Home) Box(id agentbox.BoxID) Box {
	return Box{Dir: filepath.Join(h.Boxes(), id.String()), Run: filepath.Join(h.Run(), id.String())}
}

func (b Box) Record() string      { return filepath.Join(b.Dir, "box.json") }
func (b Box) Key() string         { return filepath.Join(b.Dir, "key") }
func (b Box) Authority() string   { return filepath.Join(b.Dir, "authority.pem") }
func (b Box) KnownHosts() string  { return filepath.Join(b.Dir, "known_hosts") }
func (b Box) Log() string         { return filepath.Join(b.Dir, "supervisor.log") }
func (b Box) Saved() string       { return filepath.Join(b.Dir, "saved") }
func (b Box) Resuming() string    { return filepath.Join(b.Dir, "resuming") }
func (b Box) Checkpoints() string { return filepath.Join(b.Dir, "checkpoints") }
func (b Box) Jobs() string        { return filepath.Join(b.Dir, "jobs") }
func (b Box) Account() string     { return filepath.Join(b.Dir, "account.json") }
func (b Box) Place() string       { return filepath.Join(b.Dir, "place.json") }
func (b Box) ServiceLogs() string { return filepath.Join(b.Dir, "service-logs") }
func (b Box) Baseline() string    { return filepath.Join(b.Dir, "begin") }
func (b Box) Lock() string        { return filepath.Join(b.Run, "lock") }
func (b Box) Control() string     { return filepath.Join(b.Run, "control.sock") }
func (b Box) SSH() string         { return filepath.Join(b.Run, "ssh.sock") }

package agentbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// forbidden lists the import edges that would break the layering, each with a reason. A pattern
// that ends in /... covers a tree. Packages in allowed may be imported all the same.
var forbidden = []struct {
	from, to string
	allowed  []string
	reason   string
}{
	{"agentbox/agentbox", "agentbox/...", []string{"agentbox/vmm/guest/protocol"}, "domain types are the shared vocabulary: they depend only on the standard library and the guest protocol"},
	{"agentbox/agentbox/cli", "agentbox/vmm/...", nil, "the command line uses only api.Client, so that every verb works wherever a client can connect"},
	{"agentbox/agentbox/cli", "agentbox/agentbox/host", nil, "the command line uses only api.Client"},
	{"agentbox/agentbox/cli", "agentbox/agentbox/home", nil, "no file of a daemon is the command line's: what a verb prints comes through the API, and package reach finds the socket"},
	{"agentbox/agentbox/reach", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/api", "agentbox/agentbox/background", "agentbox/agentbox/durable", "agentbox/agentbox/environment", "agentbox/agentbox/home", "agentbox/agentbox/programs", "agentbox/agentbox/service"}, "reach finds sockets and starts a daemon; what is said through a socket is the business of its callers"},
	{"agentbox/agentbox/cli", "agentbox/agentbox/daemon", nil, "the daemon is a program of its own, so that a command does not load and initialize what only a daemon needs"},
	{"agentbox/agentbox/cli", "agentbox/agentbox/place/local/supervisor", nil, "the supervisor is a program of its own, so that a command does not load and initialize what only a supervisor needs"},
	{"agentbox/agentbox/cli", "agentbox/agentbox/door/...", nil, "the door is in the daemon's program"},
	{"agentbox/agentbox/mcp/...", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/api", "agentbox/agentbox/bounded", "agentbox/agentbox/client", "agentbox/policy"}, "its tools are a client like any other"},
	{"agentbox/agentbox/e2b", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/api", "agentbox/agentbox/background", "agentbox/agentbox/client", "agentbox/agentbox/environment"}, "it is a client like any other, for another protocol"},
	{"agentbox/agentbox/toolgate", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/api", "agentbox/agentbox/durable", "agentbox/policy/secrets"}, "what reads requests of boxes knows no boxes: who may use which server is asked through a function"},
	{"agentbox/agentbox/telemetry", "agentbox/...", nil, "what is sent to a collector knows no boxes"},
	{"agentbox/agentbox/client", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/api"}, "programs of others use it"},
	{"agentbox/agentbox/door/...", "agentbox/agentbox/daemon", nil, "the door is a client of the daemon like the command line, with no state and no logic of boxes"},
	{"agentbox/agentbox/door/...", "agentbox/agentbox/host/...", nil, "the door is a client of the daemon"},
	{"agentbox/agentbox/door/...", "agentbox/agentbox/home", nil, "no file of a daemon is the door's"},
	{"agentbox/agentbox/packed", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/durable"}, "every package that embeds a program may use it, so it imports none of them"},
	{"agentbox/agentbox/api", "agentbox/agentbox/host", nil, "the API does not know its server: handlers take an interface"},
	{"agentbox/agentbox/api", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "the API does not know machines; what it forwards to a guest has the types of the guest protocol"},
	{"agentbox/agentbox/api", "agentbox/cachestore/...", nil, "the API does not know its server"},
	{"agentbox/agentbox/cli", "agentbox/cachestore/...", nil, "the command line uses only api.Client: the daemon has the store open"},
	{"agentbox/agentbox/cli", "agentbox/mesh/...", nil, "the command line uses only api.Client: the daemon is the member of the team"},
	{"agentbox/agentbox/api", "agentbox/mesh/...", nil, "the API does not know its server"},
	{"agentbox/agentbox/host", "agentbox/mesh/...", nil, "package host declares what it needs from a team as small interfaces"},
	{"agentbox/agentbox/host", "agentbox/agentbox/team", nil, "package host declares what it needs from a team as small interfaces"},
	{"agentbox/agentbox/team", "agentbox/agentbox/host", nil, "a team shares results without knowing boxes"},
	{"agentbox/agentbox/host", "agentbox/vmm/qemu", nil, "package host knows only vmm.Driver, so that a new driver needs no change above it"},
	{"agentbox/agentbox/host", "agentbox/vmm/gvisor/...", nil, "package host knows only vmm.Driver"},
	{"agentbox/agentbox/host/...", "agentbox/vmm/container/...", nil, "packages below host know only vmm.Driver"},
	{"agentbox/agentbox/host/...", "agentbox/agentbox/host", nil, "packages below host are built and tested without it: each declares what it needs as its own interface"},
	{"agentbox/agentbox/host/...", "agentbox/agentbox/daemon", nil, "packages below host do not know the daemon that composes them"},
	{"agentbox/agentbox/host/...", "agentbox/agentbox/team", nil, "packages below host declare what they need from a team as small interfaces"},
	{"agentbox/agentbox/host/...", "agentbox/mesh/...", nil, "packages below host declare what they need from a team as small interfaces"},
	{"agentbox/agentbox/host/...", "agentbox/cachestore/...", nil, "only the store decides how bytes are kept"},
	{"agentbox/agentbox/host/...", "agentbox/vmm/qemu", nil, "packages below host know only vmm.Driver"},
	{"agentbox/agentbox/host/...", "agentbox/vmm/gvisor/...", nil, "packages below host know only vmm.Driver"},
	{"agentbox/agentbox/host/flags", "agentbox/agentbox/host/...", nil, "flags describe what a command line asks for, without the code that carries it out"},
	{"agentbox/agentbox/host/isolation", "agentbox/agentbox/host/...", nil, "the isolation of a box depends only on what the drivers report"},
	{"agentbox/agentbox/host/setup", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/keyed"}, "setup runs in boxes and images that its caller provides"},
	{"agentbox/agentbox/place/local/templates", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/keyed"}, "templates know machines, but not the boxes that these become"},
	{"agentbox/agentbox/place/local/templates", "agentbox/policy/...", nil, "the machine of a template has no network and no policy"},
	{"agentbox/agentbox/host/pool", "agentbox/...", []string{"agentbox/agentbox/resources"}, "a pool knows neither machines nor boxes"},
	{"agentbox/agentbox/host/staging", "agentbox/agentbox/host/...", nil, "a workspace is staged before anything runs in it"},
	{"agentbox/agentbox/host/work", "agentbox/agentbox/host/...", nil, "work is read from any running box, through an interface"},
	{"agentbox/agentbox/place/local/supervisors", "agentbox/agentbox/host/...", nil, "supervisor processes are started and ended without knowing what their machines are for"},
	{"agentbox/agentbox/host/keyed", "agentbox/...", nil, "every package that makes something once per key may use it, so it imports none of them"},
	{"agentbox/agentbox/place", "agentbox/agentbox/place/...", nil, "the interfaces do not know the kinds"},
	{"agentbox/agentbox/place", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "a place need not be a machine; the guest protocol only describes services"},
	{"agentbox/agentbox/place/...", "agentbox/agentbox/host", nil, "places do not know what boxes are for"},
	{"agentbox/agentbox/place/local", "agentbox/agentbox/host/...", nil, "places do not know what boxes are for"},
	{"agentbox/tools/suites/placetest", "agentbox/vmm/...", nil, "what uses places is tested without machines"},
	{"agentbox/agentbox/host", "agentbox/vmm", nil, "package host knows only places, so that a kind that is no machine needs no change in it"},
	{"agentbox/agentbox/host/isolation", "agentbox/vmm", nil, "a kind need not be a machine"},
	{"agentbox/agentbox/host/staging", "agentbox/vmm", nil, "a workspace need not be a machine's"},
	{"agentbox/agentbox/host", "agentbox/agentbox/place/local/...", nil, "package host knows only places"},
	{"agentbox/agentbox/host/...", "agentbox/agentbox/place/local/...", nil, "packages below host know only places"},
	{"agentbox/agentbox/task", "agentbox/agentbox/place/...", nil, "the queue knows boxes and jobs, wherever they run"},
	{"agentbox/agentbox/kube/...", "agentbox/agentbox/host/...", nil, "a cluster makes no boxes"},
	{"agentbox/agentbox/kube/...", "agentbox/agentbox/task", nil, "a cluster runs attempts, and does not know the queue"},
	{"agentbox/agentbox/kube/...", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "an image comes as an archive"},
	{"agentbox/agentbox/kube/worker", "agentbox/agentbox/kube", nil, "what runs in a pod knows no cluster"},
	{"agentbox/agentbox/daemon", "agentbox/agentbox/place/local/...", []string{"agentbox/agentbox/place/local/drivers", "agentbox/agentbox/place/local/templates"}, "no supervisor's endpoint and no file of a box is known above its place (local.Records); the daemon only composes"},
	{"agentbox/agentbox/job/jobs", "agentbox/agentbox/place/local/...", nil, "no supervisor's endpoint and no file of a box is known above its place (local.Records)"},
	{"agentbox/agentbox/task/tasks", "agentbox/agentbox/place/...", nil, "tasks know jobs, wherever they run"},
	{"agentbox/agentbox/task/tasks", "agentbox/mesh/...", []string{"agentbox/mesh/identity"}, "what a team does with tasks is said by an interface (tasks.Elsewhere)"},
	{"agentbox/agentbox/job/jobs", "agentbox/agentbox/task/...", nil, "jobs do not know what they are for"},
	{"agentbox/agentbox/source/sources", "agentbox/agentbox/task/...", nil, "sources do not know what is made from them"},
	{"agentbox/agentbox/fleet/elsewhere", "agentbox/agentbox/contexts/...", nil, "who may enter what is asked through fleet.Worker"},
	{"agentbox/agentbox/cli", "agentbox/agentbox/place/...", nil, "the command line uses only api.Client"},
	{"agentbox/agentbox/api", "agentbox/agentbox/place/...", nil, "what clients call does not depend on where a box runs"},
	{"agentbox/agentbox/host/egress", "agentbox/agentbox/host/...", nil, "egress is decided without knowing how boxes are made"},
	{"agentbox/agentbox/host/consent", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/flags", "agentbox/agentbox/host/isolation"}, "consent decides what a box may get, without the code that provides it"},
	{"agentbox/agentbox/host/plan", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/flags", "agentbox/agentbox/host/isolation"}, "a plan is computed from facts; other packages collect these and carry out the plan"},
	{"agentbox/agentbox/host/plan", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "a plan makes nothing; it uses the guest protocol only to describe services"},
	{"agentbox/agentbox/host/recipes", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/consent", "agentbox/agentbox/host/flags", "agentbox/agentbox/host/images"}, "a recipe asks for an image without knowing the machine that needs it"},
	{"agentbox/agentbox/host/capacity", "agentbox/agentbox/host/...", nil, "what a box gets depends only on what the host has and has already promised"},
	{"agentbox/agentbox/host/serving", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/consent"}, "services and ports work with any machine that answers, through an interface"},
	{"agentbox/agentbox/host/conversations", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/keyed"}, "what agents remember is read from any running box, through an interface"},
	{"agentbox/agentbox/host/conversations", "agentbox/vmm/...", nil, "what agents remember is read over SSH, with any kind of machine"},
	{"agentbox/agentbox/host/remotes", "agentbox/agentbox/host/...", nil, "remotes change a checkout and need no running box"},
	{"agentbox/agentbox/host/prune", "agentbox/agentbox/host/...", nil, "prune learns through an interface what boxes still need"},
	{"agentbox/agentbox/host/images", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/keyed"}, "images are fetched without knowing boxes or rules"},
	{"agentbox/agentbox/host/images", "agentbox/policy/...", nil, "images are fetched without rules: what may be read was approved before"},
	{"agentbox/vmm/gvisor/...", "agentbox/vmm/qemu", nil, "drivers do not know each other"},
	{"agentbox/vmm/qemu", "agentbox/vmm/gvisor/...", nil, "drivers do not know each other"},
	{"agentbox/vmm/container/...", "agentbox/vmm/gvisor/...", nil, "drivers do not know each other"},
	{"agentbox/agentbox/project", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/durable", "agentbox/agentbox/git", "agentbox/agentbox/home", "agentbox/agentbox/yamlfile"}, "a checkout's project is found without boxes or machines, so that every package below host can use it; it needs package git only for the syntax of its configuration and for refs in reftables"},
	{"agentbox/agentbox/project", "agentbox/vmm/...", nil, "projects know no machines"},
	{"agentbox/agentbox/place/local/supervisor", "agentbox/agentbox/host", nil, "a supervisor outlives the daemon and must not know its state"},
	{"agentbox/agentbox/host", "agentbox/cachestore/...", nil, "package host knows only setup.Results: the store decides how bytes are kept"},
	{"agentbox/agentbox/caches", "agentbox/cachestore/...", nil, "a key is computed from its ingredients, independently of where its result is stored"},
	{"agentbox/agentbox/job", "agentbox/agentbox/api", nil, "jobs run in a supervisor and do not know who requests them"},
	{"agentbox/agentbox/job", "agentbox/agentbox/host", nil, "a job outlives the daemon and must not know its state"},
	{"agentbox/agentbox/task", "agentbox/agentbox/host", nil, "tasks request boxes through an interface, so that the queue is built and tested without them"},
	{"agentbox/agentbox/host", "agentbox/agentbox/task", nil, "boxes do not know what they are for"},
	{"agentbox/agentbox/task", "agentbox/vmm/...", nil, "tasks know boxes and jobs, but not machines"},
	{"agentbox/agentbox/environment", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "an environment is anything that speaks SSH, whether a machine or not; the guest protocol is the only other thing it may speak"},
	{"agentbox/agentbox/workspace", "agentbox/vmm/...", nil, "a workspace is staged as a directory tree; drivers make their own form of it"},
	{"agentbox/agentbox/snapshot", "agentbox/agentbox/host", nil, "a snapshot is taken of any environment that answers; only package host knows the boxes"},
	{"agentbox/agentbox/snapshot", "agentbox/vmm/...", nil, "guest disks are never parsed on the host: the box itself reports what it holds"},
	{"agentbox/agentbox/snapshot", "agentbox/agentbox/api", nil, "the servers of the API call snapshot, not the reverse"},
	{"agentbox/agentbox/artifact", "agentbox/...", []string{"agentbox/agentbox"}, "data from a box is checked without knowing boxes, and a statement is verified without a daemon"},
	{"agentbox/agentbox/conversation", "agentbox/...", nil, "data from a box is checked without knowing boxes"},
	{"agentbox/agentbox/git", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/bounded"}, "code that runs git on untrusted bytes must be auditable on its own"},
	{"agentbox/vmm/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/bounded", "agentbox/agentbox/durable", "agentbox/agentbox/git/index", "agentbox/agentbox/git/objects", "agentbox/agentbox/packed"}, "leaves never import upward, except domain types, durable file writes, bounded reads, git's index and objects, and packed programs"},
	{"agentbox/agentbox/durable", "agentbox/...", nil, "every package that writes a file may use it, so it imports none of them"},
	{"agentbox/agentbox/bounded", "agentbox/...", nil, "every package that reads from a box may use it, so it imports none of them"},
	{"agentbox/agentbox/background", "agentbox/...", nil, "goroutine management does not know what the goroutines do: jobs and the mesh both use it"},
	{"agentbox/vmm/guest/protocol", "agentbox/...", nil, "host and guest both import it, and the guest agent must stay small"},
	{"agentbox/vmm/nbd", "agentbox/...", []string{"agentbox/vmm"}, "an NBD server only needs to read an image"},
	{"agentbox/vmm/fusefile", "agentbox/...", []string{"agentbox/vmm"}, "a FUSE server only needs to read an image"},
	{"agentbox/vmm/lazyimage", "agentbox/...", []string{"agentbox/agentbox"}, "a partial image is read in one way, whatever completes it"},
	{"agentbox/vmm/confine", "agentbox/...", []string{"agentbox/vmm/confine"}, "code that drops privileges must be auditable on its own"},
	{"agentbox/vmm/...", "agentbox/mesh/...", nil, "leaves never import each other"},
	{"agentbox/vmm/...", "agentbox/cachestore/...", nil, "leaves never import each other"},
	{"agentbox/vmm/...", "agentbox/policy/...", nil, "leaves never import each other"},
	{"agentbox/cachestore/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/durable"}, "leaves never import upward, except domain types and file locks"},
	{"agentbox/cachestore/...", "agentbox/vmm/...", nil, "leaves never import each other"},
	{"agentbox/cachestore/...", "agentbox/mesh/...", nil, "bytes come from a Source: the store does not know peers"},
	{"agentbox/cachestore/...", "agentbox/policy/...", nil, "leaves never import each other"},
	{"agentbox/cachestore/blob", "agentbox/cachestore/...", nil, "the formats that peers exchange are parsed without a store"},
	{"agentbox/mesh/...", "agentbox/cachestore/...", []string{"agentbox/cachestore/blob"}, "the mesh moves pieces and names, and does not know the store that keeps them"},
	{"agentbox/mesh/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/background", "agentbox/agentbox/durable"}, "leaves never import upward, except domain types, durable file writes and goroutine management"},
	{"agentbox/mesh/...", "agentbox/vmm/...", nil, "leaves never import each other"},
	{"agentbox/mesh/...", "agentbox/policy/...", nil, "leaves never import each other"},
	{"agentbox/mesh/identity", "agentbox/mesh/...", nil, "membership is verified without a network"},
	{"agentbox/mesh/wire", "agentbox/mesh/...", []string{"agentbox/mesh/identity"}, "connections know the members, but not the services that use them"},
	{"agentbox/mesh/gossip", "agentbox/mesh/...", []string{"agentbox/mesh/identity", "agentbox/mesh/wire"}, "services know connections and members, but not each other"},
	{"agentbox/mesh/catalogue", "agentbox/mesh/...", []string{"agentbox/mesh/identity", "agentbox/mesh/wire"}, "services know connections and members, but not each other"},
	{"agentbox/mesh/roster", "agentbox/mesh/...", []string{"agentbox/mesh/identity", "agentbox/mesh/wire"}, "services know connections and members, but not each other"},
	{"agentbox/mesh/lan", "agentbox/mesh/...", nil, "local discovery exchanges addresses and does not know members"},
	{"agentbox/tools/lab/netlab", "agentbox/...", []string{"agentbox/agentbox"}, "a network for tests does not know what is tested on it"},
	{"agentbox/mesh/exchange/schedule", "agentbox/...", nil, "scheduling decides which peer to ask for which piece, without bytes, connections or clocks"},
	{"agentbox/tools/lab/simulation", "agentbox/...", []string{"agentbox/mesh/exchange/schedule"}, "a simulation runs the rules and nothing else"},
	{"agentbox/mesh/exchange", "agentbox/mesh/gossip", nil, "the exchange learns which peers are present through Holders"},
	{"agentbox/mesh/exchange", "agentbox/mesh/catalogue", nil, "the exchange learns which peers have a piece through Holders"},
	{"agentbox/agentbox/yamlfile", "agentbox/...", []string{"agentbox/agentbox"}, "every package that reads a file written by people may use it, so it imports none of them"},
	{"agentbox/policy", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/yamlfile"}, "policy decides without knowing the objects of its decisions"},
	{"agentbox/vmm/qemu", "agentbox/vmm/netstack", nil, "a driver provides the link; the supervisor connects its other end"},
	{"agentbox/vmm/netstack", "agentbox/vmm/qemu", nil, "the network stack knows only vmm.Link, so that it is the same for every driver"},
	{"agentbox/policy/...", "agentbox/vmm/...", nil, "policy does not know machines"},
	{"agentbox/policy/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/bounded", "agentbox/agentbox/yamlfile"}, "leaves never import upward, except domain types, bounded reads and YAML files"},
	{"agentbox/agentbox/...", "agentbox/tools/...", nil, "programs for the build, tests and measurements are not for users"},
	{"agentbox/mesh/...", "agentbox/tools/...", nil, "programs for the build, tests and measurements are not for users"},
	{"agentbox/cachestore/...", "agentbox/tools/...", nil, "programs for the build, tests and measurements are not for users"},
	{"agentbox/policy/...", "agentbox/tools/...", nil, "programs for the build, tests and measurements are not for users"},
	{"agentbox/vmm/...", "agentbox/tools/...", nil, "programs for the build, tests and measurements are not for users"},
	{"agentbox/bench", "agentbox/tools/...", nil, "programs for the build, tests and measurements are not for users"},
	{"agentbox/bench", "agentbox/mesh/...", nil, "what users measure is whole commands; the parts are measured by tools/lab"},
	{"agentbox/bench", "agentbox/cachestore/...", nil, "what users measure is whole commands; the parts are measured by tools/lab"},
	{"agentbox/bench", "agentbox/vmm/...", nil, "what users measure is whole commands; the parts are measured by tools/lab"},
}

func TestImportsGoDownward(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "agentbox/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		pkg, imports, _ := strings.Cut(line, " ")
		for imp := range strings.FieldsSeq(imports) {
			for _, f := range forbidden {
				if covers(f.from, pkg) && covers(f.to, imp) && !contains(f.allowed, imp) && !(strings.HasSuffix(f.from, "/...") && covers(f.to, pkg)) {
					t.Errorf("%s imports %s: %s", pkg, imp, f.reason)
				}
			}
		}
	}
}

// The agent is PID 1 of every guest and is embedded in the binary, so everything that it imports
// adds attack surface and megabytes.
func TestGuestAgentImportsLittle(t *testing.T) {
	const agent = "agentbox/vmm/guest/agentbox-guest"
	out, err := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, agent).CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	allowed := []string{"agentbox/vmm/guest", "agentbox/vmm/console", "agentbox/vmm/container/launch", "agentbox/vmm/container/plan", "agentbox/vmm/hostdir/give", "agentbox/vmm/nsinit", "agentbox/vmm/unmap", "agentbox/agentbox/git/index", "agentbox/agentbox/git/objects", "github.com/pjbgf/sha1cd", "github.com/klauspost/cpuid", "golang.org/x/sync/errgroup", "golang.org/x/sys", "golang.org/x/crypto", "github.com/pkg/sftp", "github.com/kr/fs"}
	for imp := range strings.FieldsSeq(string(out)) {
		ok := false
		for _, a := range allowed {
			ok = ok || imp == a || strings.HasPrefix(imp, a+"/")
		}
		if !ok {
			t.Errorf("the guest agent depends on %s", imp)
		}
	}
}

// What runs WebAssembly is a program of its own, which a module may bring down, and which no other
// command waits for.
func TestOneProgramHasWazero(t *testing.T) {
	const wazero = "github.com/tetratelabs/wazero"
	for program, has := range map[string]bool{"check/agentbox-check": true, "daemon/agentbox-daemon": false, "place/local/supervisor/agentbox-supervisor": false, "cli": false} {
		out, err := exec.Command("go", "list", "-deps", "agentbox/agentbox/"+program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(strings.Fields(string(out)), wazero) != has {
			t.Errorf("%s: that it has wazero should be %v", program, has)
		}
	}
}

func covers(pattern, pkg string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	return pkg == pattern || ok && strings.HasPrefix(pkg, tree+"/")
}

func contains(list []string, s string) bool {
	return slices.Contains(list, s)
}

package agentbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// forbidden lists the import edges that would turn the house upside down. A pattern ending in /...
// covers a tree; except names packages of the importing tree that may, allowed ones of the imported
// tree that anybody may import.
var forbidden = []struct {
	from, to string
	allowed  []string
	reason   string
}{
	{"agentbox/agentbox", "agentbox/...", []string{"agentbox/vmm/guest/protocol"}, "domain types are the vocabulary: they depend on the standard library, and on what guests say"},
	{"agentbox/agentbox/cli", "agentbox/vmm/...", nil, "the command line talks to api.Client only, so that every verb works from anywhere a client does"},
	{"agentbox/agentbox/cli", "agentbox/agentbox/host", nil, "the command line talks to api.Client only"},
	{"agentbox/agentbox/api", "agentbox/agentbox/host", nil, "the wire does not know who serves it: handlers take an interface"},
	{"agentbox/agentbox/api", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "the wire does not know machines; what it hands on to a guest is in the guest's words"},
	{"agentbox/agentbox/api", "agentbox/cachestore/...", nil, "the wire does not know who serves it"},
	{"agentbox/agentbox/cli", "agentbox/cachestore/...", nil, "the command line talks to api.Client only: the daemon has the store open"},
	{"agentbox/agentbox/cli", "agentbox/mesh/...", nil, "the command line talks to api.Client only: the daemon is the team's member"},
	{"agentbox/agentbox/api", "agentbox/mesh/...", nil, "the wire does not know who serves it"},
	{"agentbox/agentbox/host", "agentbox/mesh/...", nil, "boxes know what they need of a team as small interfaces"},
	{"agentbox/agentbox/host", "agentbox/agentbox/team", nil, "boxes know what they need of a team as small interfaces"},
	{"agentbox/agentbox/team", "agentbox/agentbox/host", nil, "what is shared is known without boxes"},
	{"agentbox/agentbox/host", "agentbox/vmm/qemu", nil, "boxes know vmm.Driver only, so that a second driver needs no change above it"},
	{"agentbox/agentbox/host", "agentbox/vmm/gvisor/...", nil, "boxes know vmm.Driver only"},
	{"agentbox/agentbox/host/...", "agentbox/agentbox/host", nil, "a room is built and tested without the boxes: what it needs of them is an interface of its own"},
	{"agentbox/agentbox/host/...", "agentbox/agentbox/daemon", nil, "rooms do not know who composes them"},
	{"agentbox/agentbox/host/...", "agentbox/agentbox/team", nil, "rooms know what they need of a team as small interfaces"},
	{"agentbox/agentbox/host/...", "agentbox/mesh/...", nil, "rooms know what they need of a team as small interfaces"},
	{"agentbox/agentbox/host/...", "agentbox/cachestore/...", nil, "how bytes are kept is the store's business"},
	{"agentbox/agentbox/host/...", "agentbox/vmm/qemu", nil, "rooms know vmm.Driver only"},
	{"agentbox/agentbox/host/...", "agentbox/vmm/gvisor/...", nil, "rooms know vmm.Driver only"},
	{"agentbox/agentbox/host/flags", "agentbox/agentbox/host/...", nil, "what a command line asks for is said without anything that makes it"},
	{"agentbox/agentbox/host/isolation", "agentbox/agentbox/host/...", nil, "which kind of machine a box gets follows from what drivers say, and from nothing else"},
	{"agentbox/agentbox/host/setup", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/keyed"}, "what setup makes is made in boxes that it is given, of images that it is given"},
	{"agentbox/agentbox/host/templates", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/keyed"}, "templates and the pool know machines, and not whose they become"},
	{"agentbox/agentbox/host/templates", "agentbox/policy/...", nil, "what nobody has yet reaches nothing"},
	{"agentbox/agentbox/host/staging", "agentbox/agentbox/host/...", nil, "a workspace is made before anything runs in it"},
	{"agentbox/agentbox/host/work", "agentbox/agentbox/host/...", nil, "work is asked of any box that runs"},
	{"agentbox/agentbox/host/supervisors", "agentbox/agentbox/host/...", nil, "processes are started and ended whatever their machines are for"},
	{"agentbox/agentbox/host/keyed", "agentbox/...", nil, "whoever makes a thing once uses it, so it uses nobody"},
	{"agentbox/agentbox/host/egress", "agentbox/agentbox/host/...", nil, "what boxes may reach is decided without what they are made of"},
	{"agentbox/agentbox/host/consent", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/flags", "agentbox/agentbox/host/isolation"}, "what may be given is decided without what gives it"},
	{"agentbox/agentbox/host/plan", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/flags", "agentbox/agentbox/host/isolation"}, "a plan follows from facts: who finds them out and who carries it out is not its business"},
	{"agentbox/agentbox/host/plan", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "a plan makes nothing; services are what the guest is told"},
	{"agentbox/agentbox/host/recipes", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/consent", "agentbox/agentbox/host/flags", "agentbox/agentbox/host/images"}, "an image is asked for without a machine that needs it"},
	{"agentbox/agentbox/host/capacity", "agentbox/agentbox/host/...", nil, "what a box gets follows from what is there and what was promised, and from nothing else"},
	{"agentbox/agentbox/host/serving", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/consent"}, "services and ports are asked of any machine that answers"},
	{"agentbox/agentbox/host/recall", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/keyed"}, "what agents remember is asked of any box that runs"},
	{"agentbox/agentbox/host/recall", "agentbox/vmm/...", nil, "what agents remember is read over SSH, whatever holds the box"},
	{"agentbox/agentbox/host/remotes", "agentbox/agentbox/host/...", nil, "a checkout is changed without a box that runs"},
	{"agentbox/agentbox/host/prune", "agentbox/agentbox/host/...", []string{"agentbox/agentbox/host/templates"}, "what is needed the boxes say, through an interface"},
	{"agentbox/agentbox/host/images", "agentbox/agentbox/host/...", nil, "images are got without boxes and without rules"},
	{"agentbox/agentbox/host/images", "agentbox/policy/...", nil, "images are got without rules: what may be read was approved before"},
	{"agentbox/vmm/gvisor/...", "agentbox/vmm/qemu", nil, "drivers do not know each other"},
	{"agentbox/vmm/qemu", "agentbox/vmm/gvisor/...", nil, "drivers do not know each other"},
	{"agentbox/agentbox/project", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/durable", "agentbox/agentbox/git", "agentbox/agentbox/home", "agentbox/agentbox/yamlfile"}, "which project a checkout belongs to is told without boxes or machines, so that every room can ask; of git it is the syntax of configurations that it needs"},
	{"agentbox/agentbox/project", "agentbox/vmm/...", nil, "projects know no machines"},
	{"agentbox/agentbox/supervisor", "agentbox/agentbox/host", nil, "a supervisor outlives the daemon and must not know its state"},
	{"agentbox/agentbox/host", "agentbox/cachestore/...", nil, "boxes know a setup.Results only: how bytes are kept is the store's business"},
	{"agentbox/agentbox/caches", "agentbox/cachestore/...", nil, "a key is computed from ingredients, wherever what it names is kept"},
	{"agentbox/agentbox/job", "agentbox/agentbox/api", nil, "jobs live in a supervisor: who asks it for them is not their business"},
	{"agentbox/agentbox/job", "agentbox/agentbox/host", nil, "a job outlives the daemon and must not know its state"},
	{"agentbox/agentbox/task", "agentbox/agentbox/host", nil, "tasks ask for boxes through an interface, so that the queue is built and tested without them"},
	{"agentbox/agentbox/host", "agentbox/agentbox/task", nil, "boxes do not know what they are for"},
	{"agentbox/agentbox/task", "agentbox/vmm/...", nil, "tasks know boxes and jobs, and nothing of machines"},
	{"agentbox/agentbox/environment", "agentbox/vmm/...", []string{"agentbox/vmm/guest/protocol"}, "an environment is anything that speaks SSH, machine or not; what it may speak besides is in one place"},
	{"agentbox/agentbox/workspace", "agentbox/vmm/...", nil, "a workspace is staged as a directory tree; drivers make their own form of it"},
	{"agentbox/agentbox/snapshot", "agentbox/agentbox/host", nil, "work is kept of any environment that answers; which boxes there are is the host's business"},
	{"agentbox/agentbox/snapshot", "agentbox/vmm/...", nil, "guest disks are never parsed on the host: the box itself says what it holds"},
	{"agentbox/agentbox/snapshot", "agentbox/agentbox/api", nil, "it is called by what serves the wire"},
	{"agentbox/agentbox/artifact", "agentbox/...", []string{"agentbox/agentbox"}, "what a box sent is judged without boxes, and a statement is verified without a daemon"},
	{"agentbox/agentbox/history", "agentbox/...", nil, "what a box sent is judged without boxes"},
	{"agentbox/agentbox/git", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/bounded"}, "what runs git over foreign bytes must be readable on its own, whoever asks"},
	{"agentbox/vmm/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/bounded", "agentbox/agentbox/durable"}, "leaves never import upward; domain types are the exception, how files are written, and how what others wrote is read"},
	{"agentbox/agentbox/durable", "agentbox/...", nil, "whoever writes a file uses it, so it uses nobody"},
	{"agentbox/agentbox/bounded", "agentbox/...", nil, "whoever listens to a box uses it, so it uses nobody"},
	{"agentbox/agentbox/background", "agentbox/...", nil, "goroutines that end in time know nothing of what they do, be it a job's or the mesh's"},
	{"agentbox/vmm/guest/protocol", "agentbox/...", nil, "both ends of a machine import it, and the guest's is small"},
	{"agentbox/vmm/nbd", "agentbox/...", []string{"agentbox/vmm"}, "what speaks a protocol to a VMM knows of an image that it can be read, and nothing else"},
	{"agentbox/vmm/fusefile", "agentbox/...", []string{"agentbox/vmm"}, "what speaks a protocol to the kernel knows of an image that it can be read, and nothing else"},
	{"agentbox/vmm/partial", "agentbox/...", []string{"agentbox/agentbox"}, "whoever completes an image, it is read in one way"},
	{"agentbox/vmm/confine", "agentbox/...", []string{"agentbox/vmm/confine"}, "what takes rights away must be readable on its own, whoever is confined by it"},
	{"agentbox/vmm/...", "agentbox/mesh/...", nil, "leaves never import each other"},
	{"agentbox/vmm/...", "agentbox/cachestore/...", nil, "leaves never import each other"},
	{"agentbox/vmm/...", "agentbox/policy/...", nil, "leaves never import each other"},
	{"agentbox/cachestore/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/durable"}, "leaves never import upward; domain types are the exception, and how files are locked"},
	{"agentbox/cachestore/...", "agentbox/vmm/...", nil, "leaves never import each other"},
	{"agentbox/cachestore/...", "agentbox/mesh/...", nil, "where bytes come from is a Source: the store does not know peers"},
	{"agentbox/cachestore/...", "agentbox/policy/...", nil, "leaves never import each other"},
	{"agentbox/cachestore/blob", "agentbox/cachestore/...", nil, "what peers exchange is understood without a store"},
	{"agentbox/mesh/...", "agentbox/cachestore/...", []string{"agentbox/cachestore/blob"}, "the mesh moves pieces and names; who keeps them is not its business"},
	{"agentbox/mesh/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/background", "agentbox/agentbox/durable"}, "leaves never import upward; domain types are the exception, how files are written, and goroutines that end in time"},
	{"agentbox/mesh/...", "agentbox/vmm/...", nil, "leaves never import each other"},
	{"agentbox/mesh/...", "agentbox/policy/...", nil, "leaves never import each other"},
	{"agentbox/mesh/identity", "agentbox/mesh/...", nil, "who is a member is judged without a network"},
	{"agentbox/mesh/wire", "agentbox/mesh/...", []string{"agentbox/mesh/identity"}, "connections know who is a member, and none of the services on them"},
	{"agentbox/mesh/gossip", "agentbox/mesh/...", []string{"agentbox/mesh/identity", "agentbox/mesh/wire"}, "services know connections and members, and not each other"},
	{"agentbox/mesh/catalogue", "agentbox/mesh/...", []string{"agentbox/mesh/identity", "agentbox/mesh/wire"}, "services know connections and members, and not each other"},
	{"agentbox/mesh/roster", "agentbox/mesh/...", []string{"agentbox/mesh/identity", "agentbox/mesh/wire"}, "services know connections and members, and not each other"},
	{"agentbox/mesh/lan", "agentbox/mesh/...", nil, "what is said on the local network is about addresses, and knows no members"},
	{"agentbox/mesh/netlab", "agentbox/...", []string{"agentbox/agentbox"}, "a network for tests knows nothing of what is tested on it"},
	{"agentbox/mesh/exchange/schedule", "agentbox/...", nil, "who is asked for what is decided without bytes, peers and clocks"},
	{"agentbox/mesh/exchange/simulation", "agentbox/...", []string{"agentbox/mesh/exchange/schedule"}, "a simulation runs the rules and nothing else"},
	{"agentbox/mesh/exchange", "agentbox/mesh/gossip", nil, "who is about is told by whoever composes the two (Holders)"},
	{"agentbox/mesh/exchange", "agentbox/mesh/catalogue", nil, "who has what is told by whoever composes the two (Holders)"},
	{"agentbox/...", "agentbox/mesh/meshtest", nil, "teams for tests are made by tests"},
	{"agentbox/agentbox/yamlfile", "agentbox/...", []string{"agentbox/agentbox"}, "whoever reads what people write uses it, so it uses nobody"},
	{"agentbox/policy", "agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/yamlfile"}, "policy decides and knows of nothing it decides about"},
	{"agentbox/vmm/qemu", "agentbox/vmm/netstack", nil, "a driver makes the cable; what is at its other end is the supervisor's affair"},
	{"agentbox/vmm/netstack", "agentbox/vmm/qemu", nil, "the network knows vmm.Link only, so that it is the same for every driver"},
	{"agentbox/policy/...", "agentbox/vmm/...", nil, "policy knows nothing of machines"},
	{"agentbox/policy/...", "agentbox/agentbox/...", []string{"agentbox/agentbox", "agentbox/agentbox/bounded", "agentbox/agentbox/yamlfile"}, "leaves never import upward; domain types are the exception, and how what others wrote is read"},
	{"agentbox/...", "agentbox/bench/...", []string{"agentbox/bench"}, "bench imports anything and is imported by nobody but the verb that runs it"},
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

// The agent is PID 1 of every guest and is embedded in the binary: whatever it imports is attack
// surface and megabytes.
func TestGuestAgentImportsLittle(t *testing.T) {
	const agent = "agentbox/vmm/guest/agentbox-guest"
	out, err := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, agent).CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	allowed := []string{"agentbox/vmm/guest", "agentbox/vmm/console", "golang.org/x/sys", "golang.org/x/crypto", "github.com/pkg/sftp", "github.com/kr/fs"}
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

func covers(pattern, pkg string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	return pkg == pattern || ok && strings.HasPrefix(pkg, tree+"/")
}

func contains(list []string, s string) bool {
	return slices.Contains(list, s)
}

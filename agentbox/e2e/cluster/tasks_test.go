package cluster

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

func ab(t *testing.T, args ...string) string {
	t.Helper()
	cmd := agentbox(args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, complaints.String())
	}
	return strings.TrimSpace(string(out))
}

// submit submits a task to the cluster.
func submit(t *testing.T, args ...string) string {
	t.Helper()
	return ab(t, append([]string{"task", "submit", "--where", "k8s"}, args...)...)
}

// shown is what `task show --json` says.
type shown struct {
	Task struct {
		State    string `json:"state"`
		Attempts []struct {
			Result *struct {
				Reason  string `json:"reason"`
				Commits int    `json:"commits"`
			} `json:"result"`
		} `json:"attempts"`
	} `json:"task"`
	Timeline []struct {
		Event string `json:"event"`
	} `json:"timeline"`
}

func show(t *testing.T, id string) (s shown) {
	t.Helper()
	if err := json.Unmarshal([]byte(ab(t, "task", "show", "--json", id)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func ends(t *testing.T, id, state string) shown {
	t.Helper()
	eventually(t, state, func() string { return show(t, id).Task.State })
	return show(t, id)
}

func running(t *testing.T, id string) (pod string) {
	t.Helper()
	eventually(t, "1", func() string {
		pod = k(t, "get", "pods", "-l", "agentbox/task="+id, "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")
		return strconv.Itoa(len(strings.Fields(pod)))
	})
	return pod
}

// Tasks bring their work, however they end.
func TestTasks(t *testing.T) {
	needCluster(t)
	well := submit(t, "--", "sh", "-c", `id -un; echo one >new; git add new; git commit -qm two`)
	ill := submit(t, "--", "sh", "-c", "echo part >part; exit 7")
	late := submit(t, "--timeout", "5s", "--", "sh", "-c", "echo some >some; sleep 600")
	unwanted := submit(t, "--", "sh", "-c", "echo begun; echo some >some; sleep 600")
	ends(t, well, "succeeded")
	if out := ab(t, "task", "logs", well); out != "set up\nagent" {
		t.Errorf("its log: %q", out)
	}
	if out := ab(t, "diff", well); !strings.Contains(out, "+one") {
		t.Errorf("its work: %s", out)
	}
	if s := ends(t, ill, "failed"); s.Task.Attempts[0].Result.Reason != "exit code 7" || !strings.Contains(ab(t, "diff", ill), "+part") {
		t.Errorf("%+v", s)
	}
	if ends(t, late, "limited"); !strings.Contains(ab(t, "diff", late), "+some") {
		t.Error("the work of the late one is not kept")
	}
	running(t, unwanted)
	eventually(t, "set up\nbegun", func() string {
		out, _ := agentbox("task", "logs", unwanted).Output() // there is none at first
		return strings.TrimSpace(string(out))
	})
	ab(t, "task", "cancel", unwanted)
	if ends(t, unwanted, "cancelled"); !strings.Contains(ab(t, "diff", unwanted), "+some") {
		t.Error("the work of the cancelled one is not kept")
	}
	eventually(t, "", func() string { return k(t, "get", "jobs,pods", "-l", "agentbox/task="+unwanted, "-o", "name") })
}

// A pod that is evicted goes on in another one, and that does not count.
func TestEvicted(t *testing.T) {
	needCluster(t)
	id := submit(t, "--", "sh", "-c", "echo begun; sleep 20; echo done >done")
	for range 3 {
		pod := running(t, id)
		eviction := `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + pod + `","namespace":"default"}}`
		if out, err := kubectl("admin", eviction, "create", "--raw", "/api/v1/namespaces/default/pods/"+pod+"/eviction", "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		eventually(t, "Failed", func() string { return k(t, "get", "pod", pod, "-o", "jsonpath={.status.phase}") })
	}
	if ends(t, id, "succeeded"); !strings.Contains(ab(t, "diff", id), "+done") {
		t.Error("its work is not kept")
	}
}

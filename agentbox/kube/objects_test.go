package kube

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"agentbox/agentbox"
	"agentbox/agentbox/kube/worker"
	"agentbox/agentbox/resources"
)

var update = flag.Bool("update", false, "write the golden files")

// templated are settings with everything that a cluster may ask for.
const templated = `
registry: registry.example/team/agentbox
registrySecret: push
ttlSecondsAfterFinished: 600
template:
  metadata:
    labels: {team: web}
  spec:
    serviceAccountName: tasks
    runtimeClassName: gvisor
    nodeSelector: {disk: ssd}
    tolerations: [{key: batch, operator: Exists}]
    volumes: [{name: cache, persistentVolumeClaim: {claimName: cache}}]
    containers:
    - name: task
      resources: {limits: {nvidia.com/gpu: 1, memory: 8Gi}}
      volumeMounts: [{name: cache, mountPath: /cache}]
`

// cases are what the golden files are made of; make k8s-objects holds them against Kubernetes' own
// validation.
func cases(t *testing.T) map[string]asked {
	id, err := agentbox.ParseTaskID("t-f08ed4e4")
	job, err2 := agentbox.ParseJobID("j-0a1b2c3d")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	a := asked{
		Task: agentbox.Task{ID: id, TaskSpec: agentbox.TaskSpec{Project: "example.org/app"}}, Attempt: agentbox.Attempt{Number: 1, Job: job},
		Image: "registry.example/team/agentbox@sha256:" + strings.Repeat("a", 64),
		Work: worker.Work{
			Task: id.String(), Source: "registry.example/team/agentbox@sha256:" + strings.Repeat("b", 64), Result: "registry.example/team/agentbox:result-j-0a1b2c3d",
			Command: []string{"make", "test"}, User: "agent",
		},
	}
	limited := a
	limited.Need, limited.Work.Wall, limited.HostUsers = resources.Share{CPUs: 4, Memory: 4 << 30}, 90*time.Minute, true
	return map[string]asked{"plain": a, "templated": limited}
}

func TestGoldenObjects(t *testing.T) {
	for name, a := range cases(t) {
		text := "registry: registry.example/team/agentbox"
		if name == "templated" {
			text = templated
		}
		s, err := parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.job(a)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+"-job.yaml", j)
	}
	golden(t, "networkpolicy.yaml", networkPolicy([]string{"10.1.2.3/32"}))
}

func golden(t *testing.T, name string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s (%v): go test -run Golden -update writes it, make k8s-objects judges it:\n%s", name, err, got)
	}
}

// The template is not changed by the objects that are made from it.
func TestTemplateStays(t *testing.T) {
	s, err := parse([]byte(templated))
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.job(cases(t)["templated"])
	two, err2 := s.job(cases(t)["templated"])
	if err != nil || err2 != nil || !reflect.DeepEqual(one, two) {
		t.Errorf("another Job the second time (%v, %v)", err, err2)
	}
}

func TestSettingsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "registry",
		"registry: 'a b'":                    "registry",
		"registry: r.example/a\nregistri: x": "registri",
		"Registry: r.example/a":              "Registry",
		"registry: r.example/a\ntemplate: {spec: {nodeSelectr: {a: b}}}": "nodeSelectr",
		"registry: r.example/a\ntemplate: {spec: {tolerations: 3}}":      "tolerations",
		strings.Repeat("#", maxSettings+1):                               "too large",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q in it", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "k8s.yaml")); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("without a file: %v", err)
	}
}

// A task stays with the cluster that was the current one when it was submitted.
func TestResolve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: night\ncontexts: [{name: night, context: {cluster: c, user: u}}, {name: day, context: {cluster: c, user: u}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Settings{Kubeconfig: path}
	for where, want := range map[string]string{"k8s": "k8s:night", "k8s:day": "k8s:day", "k8s:none": ""} {
		if got, err := s.Resolve(where); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", where, got, err)
		}
	}
}

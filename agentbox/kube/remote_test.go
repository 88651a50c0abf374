package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agentbox/agentbox"
	"agentbox/agentbox/kube/worker"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
)

// server is an API server with one Job at most, whose pod the test runs.
type server struct {
	mu      sync.Mutex
	job     *batchv1.Job
	pods    []corev1.Pod
	deleted string // the propagation that was asked for
	made    chan worker.Work
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(v any) { w.Header().Set("Content-Type", "application/json"); _ = json.NewEncoder(w).Encode(v) }
	refuse := func(code int, reason metav1.StatusReason) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Message: string(reason), Code: int32(code)})
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/log"):
		fmt.Fprint(w, "2026-11-28T03:00:00.5Z from the log\n")
	case strings.HasSuffix(r.URL.Path, "/pods"):
		answer(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: s.pods})
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs"):
		s.job = &batchv1.Job{}
		_ = json.NewDecoder(r.Body).Decode(s.job)
		var work worker.Work
		for _, e := range s.job.Spec.Template.Spec.Containers[0].Env {
			if e.Name == worker.WorkVariable {
				_ = json.Unmarshal([]byte(e.Value), &work)
			}
		}
		answer(s.job)
		s.made <- work
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	case strings.Contains(r.URL.Path, "/jobs/") && s.job == nil:
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodDelete:
		var o metav1.DeleteOptions
		_ = json.NewDecoder(r.Body).Decode(&o)
		if o.PropagationPolicy != nil {
			s.deleted = string(*o.PropagationPolicy)
		}
		s.job, s.pods = nil, nil
		answer(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case strings.Contains(r.URL.Path, "/jobs/"):
		answer(s.job)
	default:
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden) // nodes
	}
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// end ends the Job.
func (s *server) end(kind batchv1.JobConditionType) {
	s.set(func() { s.job.Status.Conditions, s.pods = with(kind), nil })
}

// fixture is an owner with a task of a repository, a cluster and a registry.
type fixture struct {
	*server
	remote *Remote
	task   agentbox.Task
	a      agentbox.Attempt
	dir    string
	notes  []string
	mirror string
}

func newFixture(t *testing.T, command ...string) *fixture {
	t.Helper()
	repo := t.TempDir()
	run(t, repo, "git init -q . && git config user.email a@b.c && git config user.name n && echo one >file && git add . && git commit -qm one && echo dirty >>file")
	f := &fixture{server: &server{made: make(chan worker.Work, 1)}, dir: t.TempDir(), mirror: t.TempDir()}
	api, reg := httptest.NewServer(f.server), httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(api.Close)
	t.Cleanup(reg.Close)
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, namespace: night}}]\n", api.URL)
	settings := fmt.Sprintf("registry: %s/boxes\nkubeconfig: %s/config\n", strings.TrimPrefix(reg.URL, "http://"), f.dir)
	program := filepath.Join(f.dir, "program")
	err := errors.Join(os.WriteFile(f.dir+"/config", []byte(config), 0o600), os.WriteFile(f.dir+"/k8s.yaml", []byte(settings), 0o600), os.WriteFile(program, []byte("worker"), 0o700))
	store, err2 := source.OpenStore(filepath.Join(f.dir, "sources"))
	described, err3 := workspace.Describe(t.Context(), repo)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	c, _, err := store.Capture(t.Context(), described, "example.org/app")
	if err != nil {
		t.Fatal(err)
	}
	f.task = agentbox.Task{ID: agentbox.NewTaskID(), TaskSpec: agentbox.TaskSpec{Where: "k8s:c", Command: command, Source: &agentbox.SourceRef{Digest: c.Digest()}}}
	f.a = agentbox.Attempt{Number: 1, Job: agentbox.NewJobID()}
	f.remote = &Remote{
		Settings: f.dir + "/k8s.yaml", Log: slog.New(slog.DiscardHandler), Note: func(_, what, detail string) { f.notes = append(f.notes, what+" "+detail) },
		Accept: func(ctx context.Context, _ agentbox.Task, said agentbox.Result, pack io.Reader) (agentbox.Result, error) {
			if said.Ref == "" {
				return said, nil
			}
			kept, err := snapshot.Receive(ctx, f.mirror+"/m", described, snapshot.Kept{Commit: said.Commit, Base: described.Commit}, pack)
			f.mirror = kept.Mirror
			return said, err
		},
		Registry: Registry{
			Image: func(context.Context, agentbox.Task) (Image, error) {
				return Image{Write: func(context.Context, io.Writer) error { return nil }, Env: map[string]string{"FROM": "image"}}, nil
			},
			Export: store.ExportWhole, Program: program, Temp: f.dir + "/temp",
		},
	}
	return f
}

func run(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// run follows the attempt; work does what the pod of the Job would do.
func (f *fixture) follow(t *testing.T, cancelled <-chan struct{}, work func(worker.Work)) (agentbox.Result, error) {
	t.Helper()
	go func() {
		select {
		case w := <-f.made:
			work(w)
		case <-t.Context().Done():
		}
	}()
	return f.remote.Run(t.Context(), f.task, f.a, resources.Share{}, f.dir, cancelled)
}

// pod runs the worker as a pod would.
func (f *fixture) pod(t *testing.T, ctx context.Context, w worker.Work) agentbox.Result {
	r, err := worker.Worker{Work: w, Workspace: filepath.Join(t.TempDir(), "workspace"), State: t.TempDir(), Out: io.Discard}.Do(ctx)
	if err != nil {
		t.Errorf("the worker: %v", err)
	}
	return r
}

// A task that commits, changes and fails brings its work, its transcript and its status.
func TestAttempt(t *testing.T) {
	f := newFixture(t, "sh", "-c", `echo "$FROM in $PWD"; test -z "$AGENTBOX_WORK$DOCKER_CONFIG"; echo two >new; git add new; git -c user.name=n -c user.email=a@b.c commit -qm two; echo three >newer; exit 5`)
	f.task.Env = map[string]string{"FROM": "task"}
	got, err := f.follow(t, nil, func(w worker.Work) {
		f.set(func() { f.pods = []corev1.Pod{pod("p", corev1.PodRunning, nil)} })
		f.pod(t, t.Context(), w)
		f.end(batchv1.JobFailureTarget)
	})
	if err != nil || got.State != agentbox.TaskFailed || got.Exit == nil || *got.Exit != 5 || got.Reason != "exit code 5" || got.Used == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.Commit == "" {
		t.Fatalf("it left no work: %q", got.Notes)
	}
	if text := run(t, f.mirror, "git show "+got.Commit+":new "+got.Commit+":newer "+got.Commit+":file"); text != "two\nthree\none\n" {
		t.Errorf("its work: %q", text)
	}
	cast, err := os.ReadFile(f.dir + "/transcript.cast")
	if err != nil || !strings.Contains(string(cast), "task in ") {
		t.Errorf("its transcript: %q, %v", cast, err)
	}
	// By worker, package task knows that it runs.
	if b, err := os.ReadFile(f.dir + "/lease.json"); err != nil || !strings.Contains(string(b), `"worker":"`) {
		t.Errorf("its lease: %s, %v", b, err)
	}
	if said := strings.Join(f.notes, "\n"); !strings.Contains(said, "lacks whether all nodes have user namespaces is not known") {
		t.Errorf("not said: %s", said)
	}
}

// The next daemon goes on with the Job that the last one made, and makes no other.
func TestRestart(t *testing.T) {
	f := newFixture(t, "true")
	ctx, stop := context.WithCancel(t.Context())
	var w worker.Work
	go func() { w = <-f.made; stop() }()
	if _, err := f.remote.Run(ctx, f.task, f.a, resources.Share{}, f.dir, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.pod(t, t.Context(), w)
	f.set(func() { f.job = nil }) // its time was over while nobody looked
	got, err := f.follow(t, nil, func(worker.Work) { t.Error("a second Job") })
	if err != nil || got.State != agentbox.TaskSucceeded {
		t.Errorf("%+v, %v", got, err)
	}
}

// A task that is cancelled brings what it had done, and its Job goes with its pods.
func TestCancel(t *testing.T) {
	f := newFixture(t, "sh", "-c", "echo some >new; touch $READY; sleep 600")
	ready := filepath.Join(f.dir, "ready")
	f.task.Env = map[string]string{"READY": ready}
	cancelled := make(chan struct{})
	got, err := f.follow(t, cancelled, func(w worker.Work) {
		ctx, stop := context.WithCancel(t.Context())
		f.set(func() { f.pods = []corev1.Pod{pod("p", corev1.PodRunning, nil)} })
		ended := make(chan struct{})
		go func() {
			for _, err := os.Stat(ready); err != nil; _, err = os.Stat(ready) {
				time.Sleep(10 * time.Millisecond)
			}
			stop()
			<-ended
			close(cancelled)
		}()
		if r := f.pod(t, ctx, w); r.State != agentbox.TaskLost {
			t.Errorf("an interrupted worker says %s", r.State)
		}
		close(ended)
	})
	if err != nil || got.State != agentbox.TaskCancelled || got.Reason != "" || got.Commit == "" {
		t.Errorf("%+v, %v", got, err)
	}
	if f.deleted != string(metav1.DeletePropagationBackground) {
		t.Errorf("the Job was deleted with propagation %q, which leaves its pods", f.deleted)
	}
}

// Pods that are lost leave no result, and the reason is said.
func TestLost(t *testing.T) {
	f := newFixture(t, "true")
	got, err := f.follow(t, nil, func(worker.Work) {
		f.set(func() {
			f.job.Status.Conditions, f.pods = with(batchv1.JobFailed), []corev1.Pod{exited("OOMKilled", 137)}
		})
	})
	if err != nil || got.State != agentbox.TaskLost || !strings.Contains(got.Reason, "OOMKilled") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A limit of time ends the command, and keeps what it did.
func TestWall(t *testing.T) {
	f := newFixture(t, "sh", "-c", "echo some >new; sleep 600")
	f.task.Limits.Wall = 300 * time.Millisecond
	got, err := f.follow(t, nil, func(w worker.Work) { f.pod(t, t.Context(), w); f.end(batchv1.JobFailureTarget) })
	if err != nil || got.State != agentbox.TaskLimited || got.Limit.Kind != agentbox.LimitWall || got.Commit == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

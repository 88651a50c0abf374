package cluster

import (
	"path/filepath"
	"strings"
	"testing"
)

// The API server takes the objects of the golden files, with its defaults and its checks.
func TestObjectsAreValid(t *testing.T) {
	needCluster(t)
	all, err := filepath.Glob("../../kube/testdata/*.yaml")
	if err != nil || len(all) < 3 {
		t.Fatal(all, err)
	}
	for _, f := range all {
		k(t, "create", "--dry-run=server", "--validate=strict", "-f", f)
	}
}

// A Job that is deleted without a policy leaves its pods; with Background it takes them along.
func TestDeletionOrphansPods(t *testing.T) {
	needCluster(t)
	for name, want := range map[string]string{"orphans": "Running", "background": ""} {
		run(t, name, "/bin/busybox sleep 600", "", "")
		eventually(t, "Running", func() string { return pods(t, name) })
		if name == "orphans" {
			k(t, "delete", "--raw", "/apis/batch/v1/namespaces/default/jobs/"+name)
		} else {
			k(t, "delete", "job", name, "--cascade=background", "--wait=false")
		}
		eventually(t, "", func() string { return k(t, "get", "jobs", name, "--ignore-not-found") })
		eventually(t, want, func() string { return pods(t, name) })
	}
	k(t, "delete", "pods", "-l", "job-name=orphans", "--force", "--grace-period=0")
}

// Conditions come in pairs, the decision first, and only a Job that succeeded has a completionTime.
func TestConditionsComeInPairs(t *testing.T) {
	needCluster(t)
	for name, c := range map[string]struct {
		script, want string
		time         bool
	}{
		"well": {"true", "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached", true},
		"ill":  {"exit 1", "FailureTarget=True/BackoffLimitExceeded Failed=True/BackoffLimitExceeded", false},
	} {
		run(t, name, c.script, "", "")
		eventually(t, c.want, func() string { return conditions(t, name) })
		if got := k(t, "get", "job", name, "-o", "jsonpath={.status.completionTime}"); (got != "") != c.time {
			t.Errorf("%s: completionTime %q", name, got)
		}
	}
}

// A Job's deadline deletes the pod, and a pod's own keeps it.
func TestDeadlines(t *testing.T) {
	needCluster(t)
	run(t, "jobs", "/bin/busybox sleep 600", `"activeDeadlineSeconds":4,`, "")
	run(t, "pods", "/bin/busybox sleep 600", "", `"activeDeadlineSeconds":4,`)
	eventually(t, "FailureTarget=True/DeadlineExceeded Failed=True/DeadlineExceeded", func() string { return conditions(t, "jobs") })
	eventually(t, "", func() string { return pods(t, "jobs") })
	eventually(t, "FailureTarget=True/BackoffLimitExceeded Failed=True/BackoffLimitExceeded", func() string { return conditions(t, "pods") })
	eventually(t, "FailedDeadlineExceeded", func() string { return pods(t, "pods") })
}

// A FailJob rule keeps the pod that failed.
func TestFailJobKeepsItsPod(t *testing.T) {
	needCluster(t)
	run(t, "rule", "exit 3", `"podFailurePolicy":{"rules":[{"action":"FailJob","onExitCodes":{"operator":"In","values":[3]}}]},`, "")
	eventually(t, "FailureTarget=True/PodFailurePolicy Failed=True/PodFailurePolicy", func() string { return conditions(t, "rule") })
	if got := pods(t, "rule"); got != "Failed" {
		t.Errorf("its pod: %q", got)
	}
}

// Suspension deletes the pod and the start time, and leaves a condition that stays when it is over.
func TestSuspension(t *testing.T) {
	needCluster(t)
	run(t, "suspended", "/bin/busybox sleep 600", "", "")
	eventually(t, "Running", func() string { return pods(t, "suspended") })
	suspend := func(to string) {
		k(t, "patch", "job", "suspended", "--type=merge", "-p", `{"spec":{"suspend":`+to+`}}`)
	}
	suspend("true")
	eventually(t, "Suspended=True/JobSuspended", func() string { return conditions(t, "suspended") })
	eventually(t, "", func() string { return pods(t, "suspended") })
	if at := k(t, "get", "job", "suspended", "-o", "jsonpath={.status.startTime}"); at != "" {
		t.Errorf("it has begun at %s", at)
	}
	suspend("false")
	eventually(t, "Suspended=False/JobResumed", func() string { return conditions(t, "suspended") })
	k(t, "delete", "job", "suspended")
}

// A Job whose time is over goes with its pods.
func TestTTL(t *testing.T) {
	needCluster(t)
	run(t, "ttl", "true", `"ttlSecondsAfterFinished":3,`, "")
	eventually(t, "Succeeded", func() string { return pods(t, "ttl") })
	eventually(t, "", func() string {
		return k(t, "get", "job,pods", "-l", "job-name=ttl", "--ignore-not-found") + k(t, "get", "job", "ttl", "--ignore-not-found")
	})
}

// exec needs create on pods/exec, though it is a GET.
func TestExecNeedsCreate(t *testing.T) {
	needCluster(t)
	run(t, "entered", "/bin/busybox sleep 600", "", "")
	eventually(t, "Running", func() string { return pods(t, "entered") })
	name := k(t, "get", "pods", "-l", "job-name=entered", "-o", "name")
	k(t, "create", "role", "reader", "--verb=get", "--resource=pods,pods/exec")
	k(t, "create", "rolebinding", "reader", "--role=reader", "--user=nobody")
	var out string
	try := func() string {
		out, _ = kubectl("nobody", "", "exec", name, "--", "/bin/busybox", "echo", "in")
		return out
	}
	if try(); !strings.Contains(out, `cannot create resource "pods/exec"`) {
		t.Errorf("with get only: %s", out)
	}
	k(t, "create", "role", "maker", "--verb=create", "--resource=pods/exec")
	k(t, "create", "rolebinding", "maker", "--role=maker", "--user=nobody")
	eventually(t, "in", try)
	k(t, "delete", "job", "entered")
}

// A Job that says it is managed by another is left alone.
func TestManagedBy(t *testing.T) {
	needCluster(t)
	run(t, "managed", "true", `"managedBy":"example.com/other",`, "")
	run(t, "beside", "true", "", "")
	eventually(t, "Succeeded", func() string { return pods(t, "beside") })
	if got := pods(t, "managed") + k(t, "get", "job", "managed", "-o", "jsonpath={.status}"); got != "" && got != "{}" {
		t.Errorf("it is carried out: %s", got)
	}
}

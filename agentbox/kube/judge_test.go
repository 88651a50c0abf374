package kube

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agentbox/agentbox"
	"agentbox/agentbox/kube/worker"
)

var now = time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC)

func pod(name string, phase corev1.PodPhase, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{Status: corev1.PodStatus{Phase: phase, StartTime: &metav1.Time{Time: now.Add(-time.Minute)}}}
	p.Name, p.Spec.NodeName, p.CreationTimestamp = name, "n1", metav1.Time{Time: now.Add(-time.Hour)}
	if change != nil {
		change(&p)
	}
	return p
}

func exited(reason string, code int32) corev1.Pod {
	return pod("x", corev1.PodFailed, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}}}
	})
}

func disrupted(reason string) corev1.Pod {
	return pod("x", corev1.PodFailed, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
	})
}

func waiting(reason string, since time.Duration) corev1.Pod {
	return pod("x", corev1.PodPending, func(p *corev1.Pod) {
		p.Status.StartTime.Time = now.Add(-since)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "\x1b[31mred"}}}}
	})
}

func with(kind batchv1.JobConditionType) []batchv1.JobCondition {
	return []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse}, {Type: kind, Status: corev1.ConditionTrue, Reason: "r", Message: "m"}}
}

func TestJudge(t *testing.T) {
	gone := pod("gone", corev1.PodRunning, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)} })
	going := pod("going", corev1.PodRunning, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Minute)} })
	running := pod("run", corev1.PodRunning, nil)
	for name, c := range map[string]struct {
		conditions []batchv1.JobCondition
		pods       []corev1.Pod
		want       verdict
		reason     string // is in it
	}{
		"no pod yet":        {},
		"runs":              {pods: []corev1.Pod{running}, want: verdict{Pod: "run", Node: "n1"}},
		"ended well":        {conditions: with(batchv1.JobSuccessCriteriaMet), want: verdict{Over: true}},
		"ended, result":     {conditions: with(batchv1.JobFailureTarget), pods: []corev1.Pod{exited("Error", worker.ExitDelivered)}, want: verdict{Over: true}, reason: "m"},
		"out of memory":     {conditions: with(batchv1.JobFailed), pods: []corev1.Pod{exited("OOMKilled", 137)}, want: verdict{Over: true, Lost: 1}, reason: "too little memory"},
		"preempted":         {pods: []corev1.Pod{disrupted("PreemptionByScheduler"), disrupted("PreemptionByScheduler"), disrupted("EvictionByEvictionAPI"), running}, want: verdict{Pod: "run", Node: "n1"}},
		"nodes died":        {pods: []corev1.Pod{disrupted("DeletionByTaintManager"), disrupted("TerminationByKubelet"), running}, want: verdict{Pod: "run", Node: "n1", Lost: 2}, reason: "TerminationByKubelet"},
		"the third":         {pods: []corev1.Pod{disrupted("DeletionByTaintManager"), disrupted("DeletionByPodGC"), exited("OOMKilled", 137), running}, want: verdict{Pod: "run", Node: "n1", Lost: 3, GiveUp: true, Cause: agentbox.TaskLost}, reason: "3 times"},
		"a zombie":          {pods: []corev1.Pod{gone, running}, want: verdict{Pod: "run", Node: "n1", Dead: []string{"gone"}}},
		"ends in its grace": {pods: []corev1.Pod{going}},
		"image on its way":  {pods: []corev1.Pod{waiting("ImagePullBackOff", time.Minute)}, want: verdict{Waits: "ImagePullBackOff: \ufffd[31mred"}},
		"no such image":     {pods: []corev1.Pod{waiting("ImagePullBackOff", time.Hour)}, want: verdict{Waits: "ImagePullBackOff: \ufffd[31mred", GiveUp: true, Cause: agentbox.TaskFailed}, reason: "ImagePullBackOff"},
		"suspended":         {conditions: with(batchv1.JobSuspended), want: verdict{Waits: "its Job is suspended"}},
	} {
		got := judge(&batchv1.Job{Status: batchv1.JobStatus{Conditions: c.conditions}}, c.pods, now)
		if !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: reason %q, want %q in it", name, got.Reason, c.reason)
		}
		got.Reason = ""
		if strings.Join(got.Dead, " ") != strings.Join(c.want.Dead, " ") {
			t.Errorf("%s: dead %q", name, got.Dead)
		}
		got.Dead, c.want.Dead = nil, nil
		if got.Waits != c.want.Waits || got.Pod != c.want.Pod || got.Over != c.want.Over || got.GiveUp != c.want.GiveUp || got.Cause != c.want.Cause || got.Lost != c.want.Lost || got.Node != c.want.Node {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

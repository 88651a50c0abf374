package kube

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"agentbox/agentbox"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/kube/worker"
)

// verdict is what a Job and its pods mean for the attempt.
type verdict struct {
	Over   bool   // there will be no other pod; the registry has the result, or there is none
	GiveUp bool   // there is nothing to wait for, though Kubernetes goes on
	Reason string // why there may be no result
	Cause  agentbox.TaskState

	Pod   string // that runs the command; "" while none does
	Node  string
	Waits string // what it waits for
	// Dead are pods that should have ended long ago: nobody reaches their nodes.
	Dead []string
	Lost int
}

// How long is waited for an image that cannot be had, and for a pod on a node that does not answer.
const (
	pullPatience = 10 * time.Minute
	deadAfter    = 30 * time.Second
)

// judge decides. Pods of the Job that have gone are not known to it.
func judge(job *batchv1.Job, pods []corev1.Pod, now time.Time) (v verdict) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	other := ""
	for i := range pods {
		p := &pods[i]
		switch {
		case p.Status.Phase == corev1.PodFailed:
			if why, counts := endOf(p); counts {
				v.Lost++
				v.Reason = why
			} else {
				other = why
			}
		case p.DeletionTimestamp != nil:
			if now.Sub(p.DeletionTimestamp.Time) > deadAfter {
				v.Dead = append(v.Dead, p.Name)
			}
		case p.Status.Phase == corev1.PodRunning:
			v.Pod, v.Node = p.Name, p.Spec.NodeName
		case p.Status.Phase == corev1.PodPending:
			var hopeless bool
			v.Waits, hopeless = waitOf(p, now)
			if hopeless {
				v.GiveUp, v.Reason, v.Cause = true, v.Waits, agentbox.TaskFailed
			}
		}
	}
	v.Reason = cmp.Or(v.Reason, other)
	v.conclude(job)
	return v
}

// conclude is what the Job's conditions say. They are found by type, and come in pairs: the first is the
// decision, and the second may never come while a node does not answer.
func (v *verdict) conclude(job *batchv1.Job) {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobSuccessCriteriaMet, batchv1.JobComplete:
			v.Over = true
		case batchv1.JobFailureTarget, batchv1.JobFailed:
			v.Over, v.Reason = true, cmp.Or(v.Reason, agentbox.Printable(c.Message))
		case batchv1.JobSuspended:
			v.Waits = "its Job is suspended"
		}
	}
	if !v.Over && !v.GiveUp && v.Lost >= fleet.MaxLeases {
		v.GiveUp, v.Cause = true, agentbox.TaskLost
		v.Reason = fmt.Sprintf("pods that ran it were lost %d times, the last one: %s", v.Lost, v.Reason)
	}
}

// endOf says why a pod failed, and whether that counts against the task. Being moved away does not.
func endOf(p *corev1.Pod) (why string, counts bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			moved := c.Reason == corev1.PodReasonPreemptionByScheduler || c.Reason == "EvictionByEvictionAPI"
			return agentbox.Printable(c.Reason + ": " + c.Message), !moved
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		t := s.State.Terminated
		switch {
		case s.Name != container || t == nil:
		case t.ExitCode == worker.ExitDelivered:
			return "", false
		case t.Reason == "OOMKilled":
			return "its pod had too little memory (OOMKilled)", true
		default:
			return agentbox.Printable(fmt.Sprintf("%s, exit code %d: %s", t.Reason, t.ExitCode, agentbox.Clip(t.Message))), true
		}
	}
	return agentbox.Printable(cmp.Or(p.Status.Reason, "Failed") + ": " + p.Status.Message), true
}

// hopelessReasons are those for which a container waits for ever: Kubernetes does not end such a pod.
var hopelessReasons = []string{"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

func waitOf(p *corev1.Pod, now time.Time) (why string, hopeless bool) {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			old := p.Status.StartTime != nil && now.Sub(p.Status.StartTime.Time) > pullPatience
			return agentbox.Printable(w.Reason + ": " + agentbox.Clip(w.Message)), old && slices.Contains(hopelessReasons, w.Reason)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return agentbox.Printable(c.Reason + ": " + c.Message), false
		}
	}
	return "its container is being made", false
}

// Package kube runs tasks on Kubernetes clusters: a Job for each attempt (TaskSpec.Where is "k8s:CONTEXT").
// Nothing of ours runs in a cluster but the pods of tasks.
//
//	Settings   k8s.yaml of the home, and beside it what the user's kubeconfig says (settings.go)
//	Remote     one attempt, from the Job to the result (remote.go); implements task.Remote
//	objects    the Job and what belongs to it: a pure function (objects.go)
//	judge      what a Job and its pods mean for the attempt: a pure function (judge.go)
//	cluster    what is asked of the API server (cluster.go)
//	Registry   images, sources and results as OCI artifacts (registry.go)
//	worker/    what runs in the pod: our own program, which the image has in a layer
//
// The pod is the place: its isolation is that of the container, or of the cluster's RuntimeClass. The
// policy is not held there, since a NetworkPolicy knows addresses and no names, and no secret gets there.
//
// Kubernetes makes the pods of a Job, also while this machine sleeps, by the rules that package fleet has
// for machines of the team: a pod that is lost is replaced, and the third one is the task's fault. What
// only moves a pod away (preemption, a drained node) does not count. The worker puts its result into the
// registry, under the name of the attempt, before its pod ends; so there may be a zombie on a node that
// nobody reaches, but never a second result that counts: the owner takes one, once.
//
// What the cluster and the registry say is data: a result passes the checks of a worker's (fleet.Sanitized,
// snapshot.Receive), texts are made printable.
package kube

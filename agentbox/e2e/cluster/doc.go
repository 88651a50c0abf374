// Package cluster has tests that need a Kubernetes cluster: make e2e-k8s. They start one, of one node, in
// namespaces of its own on this machine (tools/k8s/cluster), and say what of Kubernetes package kube
// relies on.
package cluster

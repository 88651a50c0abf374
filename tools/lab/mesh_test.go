package main

import (
	"bytes"
	"os"
	"testing"

	"agentbox/agentbox"
)

func openMesh(t *testing.T) *MeshLab {
	t.Helper()
	l, err := OpenMeshLab(MeshConfig{Dir: t.TempDir(), Large: 4 << 20, Small: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestMeshBaselinesComeFirst(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range openMesh(t).Scenarios() {
		if seen[s.Name] || s.Baseline != "" && !seen[s.Baseline] {
			t.Errorf("%s, baseline %q", s.Name, s.Baseline)
		}
		seen[s.Name] = true
	}
	for _, want := range []string{"mesh/one-peer-1g", "mesh/one-peer-loopback", "mesh/swarm-4", "mesh/swarm-16", "mesh/holder-killed"} {
		if !seen[want] {
			t.Errorf("no %s", want)
		}
	}
}

func TestNamespacesNeedRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("this is root")
	}
	_, err := newLinks(t.Context(), 2, 0)
	if agentbox.CodeOf(err) != agentbox.Missing || !bytes.Contains([]byte(err.Error()), []byte("root")) {
		t.Errorf("%v", err)
	}
}

func TestMeshNodeRejectsUnknownOrders(t *testing.T) {
	if err := RunMeshNode(t.Context(), t.TempDir(), &bytes.Buffer{}, &bytes.Buffer{}); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("%v", err)
	}
}

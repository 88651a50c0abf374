package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/bench"
)

// A program that is not installed is reported as missing, and not measured.
func TestMissingPeersAreListed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "registry"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := OpenMeshLab(MeshConfig{Dir: t.TempDir(), Large: 4 << 20, Small: 4 << 20, Peers: true, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	have := map[string]string{}
	for _, s := range l.Scenarios() {
		have[s.Name] = s.Baseline
	}
	if have["mesh/registry-swarm-16"] != "mesh/tcp-copy-100m-swarm-16" {
		t.Errorf("%v", have)
	}
	if _, ok := have["mesh/rsync-swarm-4"]; ok {
		t.Error("rsync is not here")
	}
	missing := l.Missing(nil)
	if len(missing) != 4 || missing[0].Name != "mesh/rsync-swarm-4" || !strings.Contains(missing[0].Why, "apt-get install rsync") {
		t.Errorf("%v", missing)
	}
	if got := l.Missing([]string{"mesh/ipfs-*"}); len(got) != 2 || got[1].Name != "mesh/ipfs-swarm-16" {
		t.Errorf("%v", got)
	}
	var out bytes.Buffer
	if err := (bench.Report{Missing: missing}).WriteTable(&out); err != nil || !strings.Contains(out.String(), "not measured: mesh/ipfs-swarm-16: ipfs is not here: make bench-peers") {
		t.Errorf("%s, %v", &out, err)
	}
}

func TestPeersAreOptional(t *testing.T) {
	l := openMesh(t)
	for _, s := range l.Scenarios() {
		if strings.Contains(s.Name, "rsync") {
			t.Error(s.Name)
		}
	}
	if m := l.Missing(nil); len(m) != 0 {
		t.Errorf("%v", m)
	}
}

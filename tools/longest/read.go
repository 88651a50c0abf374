package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// test is one that has ended and started no other. Times are in seconds.
type test struct {
	Package, Name string
	Took          float64
	Delayed       float64 // something waited for a core
}

// event is what go test -json prints of them: see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// reader prints of events what go test would, and collects tests.
type reader struct {
	to      io.Writer
	delayed func() float64
	began   map[[2]string]float64  // delayed at that time
	said    map[[2]string][]string // not printed yet
	tests   []test
}

func newReader(to io.Writer, delayed func() float64) *reader {
	return &reader{to: to, delayed: delayed, began: map[[2]string]float64{}, said: map[[2]string][]string{}}
}

func (r *reader) read(from io.Reader) error {
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			r.take(e)
		} else if len(bytes.TrimSpace(line)) > 0 {
			fmt.Fprintf(r.to, "%s", line) // of go itself
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *reader) take(e event) {
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "run", "cont": // a parallel test begins anew when it goes on
		r.began[key] = r.delayed()
	case "output", "build-output":
		r.say(key, e.Output)
	case "pass", "fail", "skip":
		r.end(key, e)
	}
}

// say prints what a package says, and keeps what a test says until it fails.
func (r *reader) say(key [2]string, text string) {
	switch {
	case key[1] != "":
		r.said[key] = append(r.said[key], text)
	case text != "PASS\n" && text != "FAIL\n" && !strings.Contains(text, "[no test files]"):
		fmt.Fprint(r.to, text)
	}
}

func (r *reader) end(key [2]string, e event) {
	if e.Action == "fail" {
		r.tell(key)
	}
	delete(r.said, key)
	if e.Test == "" || e.Action == "skip" {
		return
	}
	r.tests = append(r.tests, test{Package: e.Package, Name: e.Test, Took: e.Elapsed, Delayed: r.delayed() - r.began[key]})
}

// tell prints what a test that failed said; of a package, also what those said that it never ended.
func (r *reader) tell(key [2]string) {
	for k, said := range r.said {
		if k == key || key[1] == "" && k[0] == key[0] {
			fmt.Fprint(r.to, strings.Join(said, ""))
		}
	}
}

// longest returns the n longest of tests, without those whose parts are tests of their own.
func longest(all []test, n int) []test {
	parents := map[[2]string]bool{}
	for _, t := range all {
		for name := t.Name; strings.Contains(name, "/"); {
			name = name[:strings.LastIndex(name, "/")]
			parents[[2]string{t.Package, name}] = true
		}
	}
	alone := slices.DeleteFunc(slices.Clone(all), func(t test) bool { return parents[[2]string{t.Package, t.Name}] })
	slices.SortStableFunc(alone, func(a, b test) int { return cmp.Compare(b.Took, a.Took) })
	return alone[:min(n, len(alone))]
}

// delayed returns for how long at least one process of this machine has waited for a core, in
// seconds since it was started; 0 where the kernel does not count that.
func delayed() float64 {
	b, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	var microseconds float64
	_, total, _ := strings.Cut(string(b), "total=")
	fmt.Sscan(total, &microseconds)
	return microseconds / 1e6
}

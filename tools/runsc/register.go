package main

import (
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentry "gvisor.dev/gvisor/runsc/boot/filter"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

// gVisor's own build generates the sources of these two. runsc compiles the filters that it does
// not find here.

//go:linkname sentryKnown gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var sentryKnown map[string]precompiledseccomp.Program

//go:linkname goferKnown gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var goferKnown map[string]precompiledseccomp.Program

// registerFilters tells gVisor of the compiled filters. It must run before runsc starts a sandbox
// or a file server, both of which look for their filters by the name that says which options they
// were compiled for.
func registerFilters() {
	sentry.ListPrecompiled() // makes the map, once
	for _, p := range sentryPrograms {
		sentryKnown[p.Name] = p
	}
	gofer.ListPrecompiled()
	for _, p := range goferPrograms {
		goferKnown[p.Name] = p
	}
}

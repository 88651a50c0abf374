package main

import "gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"

// The compiled filters: vmm/gvisor/runsc/build.sh puts what the command filters prints in place of
// this file.
var sentryPrograms, goferPrograms []precompiledseccomp.Program

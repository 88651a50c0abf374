#!/bin/sh
# k8s.io/kubernetes v1.37.2 (the API server's own packages), Go 1.26; some five minutes to compile the first time
#
# Expected, of deleting a Job of batch/v1 with no propagation policy, as client-go's Delete(ctx, name, metav1.DeleteOptions{})
# and a plain DELETE do: what it made goes with it, as of a Deployment of apps/v1, and as after `kubectl delete job`.
# Seen: the server's default for a Job is to orphan (`orphan`), and for a Deployment it is not (`delete`). The pods stay and
# run on, without an owner. kubectl says Background itself; a program has to say PropagationPolicy, too.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
from=$(go mod download -json k8s.io/kubernetes@v1.37.2 | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
{ # its modules are beside it in its repository, and published on their own
    printf 'module example.com/orphans\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.37.2\n\nreplace (\n'
    awk '/=> .\/staging/ { print "\t" $1 " => " $1 " v0.37.2" }' "$from"
    echo ')'
} >go.mod
cat >main.go <<'M'
package main

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/batch/job"
)

func main() {
	for _, of := range []struct {
		group    string
		strategy any
	}{{"batch", job.Strategy}, {"apps", deployment.Strategy}} {
		ctx := request.WithRequestInfo(context.Background(), &request.RequestInfo{APIGroup: of.group, APIVersion: "v1"})
		does := "delete"
		if of.strategy.(rest.GarbageCollectionDeleteStrategy).DefaultGarbageCollectionPolicy(ctx) == rest.OrphanDependents {
			does = "orphan"
		}
		fmt.Println(of.group, does)
	}
}
M
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
got=$(go run . | tr '\n' ' ')
echo "seen: $got"
test "$got" = "batch orphan apps delete "

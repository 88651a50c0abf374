// Package e2e tests agentbox as its users meet it: the real binary, real machines, and the scripts
// in testdata/script. It holds tests only, and reaches into no other package.
package e2e

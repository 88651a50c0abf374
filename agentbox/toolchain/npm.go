package toolchain

import (
	"runtime"

	"agentbox/agentbox"
)

// Native is a program that a package of the npm registry has as a file that runs without Node.js;
// its constraint is PACKAGE FILE. Where the registry has it, it serves what the file that asks for
// it would otherwise need (resolve.WithNatives).
const Native Tool = "native-program"

// nativeProgram matches a package of the npm registry and a path in it.
var nativeProgram = agentbox.Pattern(`^(@[a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9][a-z0-9._-]{0,127} ([A-Za-z0-9_-]{1,64}/){0,4}[A-Za-z0-9_-]{1,64}$`)

// NPMArchitecture is this architecture in names of npm packages, "" if it is not known.
func NPMArchitecture() string {
	return map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
}

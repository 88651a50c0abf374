package environment

import (
	"io/fs"
	"strings"

	"agentbox/agentbox"
)

// destination says where a copy goes, by the rules of docker cp. src and dst are as the user wrote
// them, base is the source's name in its directory, dstInfo is nil if dst does not exist.
//
//	source     destination          result
//	file       absent               becomes dst; an error when dst ends in a slash
//	file       a file               is overwritten
//	file       a directory          becomes dst/base
//	directory  absent               becomes dst
//	directory  a file               an error
//	directory  a directory          becomes dst/base; its contents go into dst when src ends in "/."
//
// into is true if the result is an existing directory that gets the contents. A destination that
// ends in a slash must be a directory. Nothing is looked up here, so that tests can cover the
// table.
func destination(src, base, dst string, srcDir bool, dstInfo fs.FileInfo) (result string, into bool, err error) {
	if dst == "" {
		dst = "."
	}
	slash := strings.HasSuffix(dst, "/")
	contents := src == "." || strings.HasSuffix(src, "/.") || base == "/"
	switch {
	case dstInfo == nil && !srcDir && slash:
		return "", false, agentbox.Errorf(agentbox.NotFound, "the directory %s does not exist", dst).
			WithHint("leave the slash at the end out to make a file of this name")
	case dstInfo == nil:
		return strings.TrimRight(dst, "/"), false, nil
	case dstInfo.IsDir() && srcDir && contents:
		return dst, true, nil
	case dstInfo.IsDir():
		return strings.TrimRight(dst, "/") + "/" + base, false, nil
	case srcDir:
		return "", false, agentbox.Errorf(agentbox.Invalid, "%s is a file, and a directory cannot be copied onto it", dst)
	case slash:
		return "", false, agentbox.Errorf(agentbox.Invalid, "%s is not a directory", dst)
	}
	return dst, false, nil
}

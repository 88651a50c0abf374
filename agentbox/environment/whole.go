package environment

import (
	"errors"
	"io"
	"io/fs"
	"path"

	"agentbox/agentbox"
)

// partPrefix begins the names of files that WriteWhole has not completed.
const partPrefix = ".tmp-"

// WriteWhole replaces a file, or makes it with the directories above it. It appears complete or not
// at all, except on a server that cannot rename over a file. A mode of 0 is that of the file that
// was there, or 0644. A link is followed.
func (f *Files) WriteWhole(name string, content io.Reader, mode fs.FileMode) error {
	if real, err := f.sftp.RealPath(name); err == nil {
		name = real
	}
	there, err := f.sftp.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.sftp.MkdirAll(path.Dir(name)); err != nil {
			return f.failure("make the directory of", name, err)
		}
	case err != nil:
		return f.failure("find", name, err)
	case !there.Mode().IsRegular():
		return agentbox.Errorf(agentbox.Invalid, "%s is not a file", name)
	case mode == 0:
		mode = there.Mode().Perm()
	}
	if mode == 0 {
		mode = 0o644
	}
	part := path.Join(path.Dir(name), partPrefix+agentbox.NewBoxID().String())
	err = f.writeNew(part, content, mode)
	if err == nil {
		err = f.sftp.PosixRename(part, name)
	}
	if err != nil {
		_ = f.sftp.Remove(part)
		return f.failure("write", name, err)
	}
	return nil
}

func (f *Files) writeNew(name string, content io.Reader, mode fs.FileMode) error {
	out, err := f.sftp.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	if err == nil {
		err = out.Chmod(mode.Perm())
	}
	return errors.Join(err, out.Close())
}

// ReadPart returns at most limit bytes of a file from offset, and the size of the file.
func (f *Files) ReadPart(name string, offset int64, limit int) ([]byte, int64, error) {
	in, err := f.sftp.Open(name)
	if err != nil {
		return nil, 0, f.failure("read", name, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, agentbox.Errorf(agentbox.Invalid, "%s is not a file", name)
	}
	if err != nil {
		return nil, 0, f.failure("read", name, err)
	}
	b, err := io.ReadAll(io.NewSectionReader(in, offset, int64(limit)))
	if err != nil {
		return nil, 0, f.failure("read", name, err)
	}
	return b, info.Size(), nil
}

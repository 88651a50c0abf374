package environment

import (
	"archive/tar"
	"context"
	"errors"
	"io"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// errTooLong is the cause of a context that Limits ended, rather than its caller.
var errTooLong = errors.New("it takes too long")

func (l Limits) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.Time == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, l.Time, errTooLong)
}

// exceeded is the error for exceeding the bound. format continues a sentence that begins with "it".
func (l Limits) exceeded(format string, args ...any) error {
	return agentbox.Errorf(agentbox.Conflict, l.Of+" is too much to keep: it "+format, args...).WithHint("%s", l.Hint)
}

func (l Limits) writer(w io.Writer) io.Writer {
	if l.Bytes == 0 {
		return w
	}
	return &bounded.LimitedWriter{W: w, Remaining: l.Bytes, Err: l.exceeded("has more than %d MiB", l.Bytes>>20)}
}

// failingWriter keeps the error of the writer behind it and calls failed, which ends the command
// whose output it takes. Exec would only say that output could not be written.
type failingWriter struct {
	w      io.Writer
	failed func()
	err    error
}

// Write passes p on, and ends the command at the first failure.
func (f *failingWriter) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		f.err = err
		f.failed()
	}
	return n, err
}

// countFiles reads an archive in parallel with the writer that keeps it, and fails beyond the
// bound. done ends it and waits for it. An archive that cannot be read is no error here: its users
// refuse it.
func countFiles(b Limits) (w io.Writer, done func() error) {
	r, pipe := io.Pipe()
	result := make(chan error, 1)
	go func() {
		in, files := tar.NewReader(r), 0
		_, err := in.Next()
		for ; err == nil; _, err = in.Next() {
			if files++; b.Files > 0 && files > b.Files {
				err := b.exceeded("has more than %d files", b.Files)
				r.CloseWithError(err)
				result <- err
				return
			}
		}
		_, _ = io.Copy(io.Discard, r) // what follows the end, or what is no archive
		result <- nil
	}()
	return pipe, func() error {
		pipe.Close()
		return <-result
	}
}

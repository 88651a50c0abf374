// Command get prints a URL's answer to a request with the secret in $TOKEN, as any Go program would
// make it.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if err := get(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// get makes one request and writes the body, whatever the status.
func get(url string) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	// The default's ten seconds for a handshake are a busy machine's, where a colleague's task runs when
	// nobody else wants the processors.
	res, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(os.Stdout, res.Body)
	return err
}

// Usage: go run uploads.go URL CA_FILE BYTES COUNT
// POSTs a body COUNT times, one after the other, on kept connections of HTTP/1.1. Prints how often each status came as JSON.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	size, _ := strconv.Atoi(os.Args[3])
	count, _ := strconv.Atoi(os.Args[4])
	pem, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{
		Timeout: 60 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots},
			TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{},
		},
	}
	statuses := map[string]int{}
	body := make([]byte, size)
	for i := 0; i < count; i++ {
		response, err := client.Post(os.Args[1], "application/octet-stream", bytes.NewReader(body))
		if err != nil {
			statuses[err.Error()]++
			continue
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		statuses[strconv.Itoa(response.StatusCode)]++
	}
	json.NewEncoder(os.Stdout).Encode(statuses)
}

package gcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// CallerAddress asks public services which IPv4 address this machine has on
// the internet, and returns the first answer.
func CallerAddress(ctx context.Context) (string, error) {
	return callerAddress(ctx, http.DefaultClient, "https://checkip.amazonaws.com/", "https://ipv4.icanhazip.com/")
}

func callerAddress(ctx context.Context, client *http.Client, services ...string) (string, error) {
	var failures []error
	for _, service := range services {
		address, err := askAddress(ctx, client, service)
		if err == nil {
			return address, nil
		}
		failures = append(failures, err)
	}
	return "", fmt.Errorf("find out this machine's address: %w", errors.Join(failures...))
}

func askAddress(ctx context.Context, client *http.Client, service string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 100))
	if err != nil {
		return "", fmt.Errorf("%s: %w", service, err)
	}
	address, err := netip.ParseAddr(strings.TrimSpace(string(text)))
	if err != nil || answer.StatusCode != http.StatusOK || !address.Is4() {
		return "", fmt.Errorf("%s: it answers %s %q", service, answer.Status, text)
	}
	return address.String(), nil
}

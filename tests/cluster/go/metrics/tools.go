//go:build tools

// Package metrics names the program, so that `go mod tidy` keeps what it needs.
package metrics

import _ "sigs.k8s.io/metrics-server/cmd/metrics-server"

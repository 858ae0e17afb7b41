//go:build tools

// Package tools names the binaries that the chart's test builds; it is never compiled itself.
package tools

import (
	_ "github.com/cert-manager/cert-manager/cmd/cainjector"
	_ "github.com/cert-manager/cert-manager/cmd/controller"
)

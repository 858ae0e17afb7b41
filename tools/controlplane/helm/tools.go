//go:build tools

// Package tools names the binary that the chart's tests build; it is never compiled itself.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)

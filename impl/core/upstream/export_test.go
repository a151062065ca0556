package upstream

// IsAzureIssuer is isAzureIssuer.
var IsAzureIssuer = isAzureIssuer

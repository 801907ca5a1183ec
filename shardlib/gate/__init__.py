"""What stands between a pull request and the GPUs: GitHub asked, Argo told, check runs written."""

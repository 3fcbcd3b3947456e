// What work.mjs does, for .NET: files, a child process, a name of the cluster, HTTP by Kestrel.
using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;

static class Work
{
    static string Step(Func<string> work)
    {
        try { return work(); } catch (Exception e) { return "failed: " + e.Message; }
    }

    static string Files()
    {
        Directory.CreateDirectory(@"C:\work\below");
        File.WriteAllText(@"C:\work\below\one.txt", "text");
        File.Move(@"C:\work\below\one.txt", @"C:\work\two.txt");
        var text = File.ReadAllText(@"C:\work\two.txt");
        Directory.Delete(@"C:\work", true);
        return Directory.Exists(@"C:\work") ? "not removed" : text;
    }

    static string Child()
    {
        var start = new ProcessStartInfo("findstr.exe", "o") { RedirectStandardInput = true, RedirectStandardOutput = true, UseShellExecute = false };
        using (var child = Process.Start(start))
        {
            child.StandardInput.Write("one\r\nthree\r\ntwo\r\n");
            child.StandardInput.Close();
            var words = child.StandardOutput.ReadToEnd().Split((char[])null, StringSplitOptions.RemoveEmptyEntries);
            child.WaitForExit();
            return string.Join(" ", words.Append(child.ExitCode.ToString()));
        }
    }

    static void Main()
    {
        var files = Step(Files);
        var child = Step(Child);
        var name = Step(() => Dns.GetHostAddresses("kubernetes.default.svc.cluster.local")[0].ToString());
        Console.WriteLine("begins");
        var done = $"{{\"files\":\"{files}\",\"child\":\"{child}\",\"name\":\"{name}\",\"output\":\"written\"}}";
        new WebHostBuilder().UseKestrel().UseUrls("http://0.0.0.0:8080")
            .Configure(app => app.Run(context => context.Response.WriteAsync(done))).Build().Run();
    }
}
